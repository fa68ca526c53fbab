#pragma once

#include "runtime/rounds/beam_search.hpp"
#include "runtime/rounds/hypothesis_cells.hpp"
#include "runtime/scheduling/round.hpp"
#include "runtime/speculation/drafters/drafter.hpp"

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace paceline::rounds {

/// Returns one session for each hypothesis, given their output tokens; the same session for all if the
/// drafter's hypotheses take turns.
using open_sessions =
    std::function<std::vector<speculation::drafter_session*>(std::span<const std::vector<token_id>> outputs)>;

/// The largest draft tree below each hypothesis of a beam search. Levels are limited by positions and cells,
/// nodes only by cells.
scheduling::draft_bounds limit_below_hypotheses(const scheduling::plan_item& item, const beam_search& beams,
                                                std::uint32_t block_size);

/// Drafts below each hypothesis of a beam search, best first, as far as the lease of the target has cells for
/// them. Empty if the search may not draft now (`beam_search::may_draft`). `kv`: storage of the drafter's own
/// pool, whose lease the hypotheses use in turn. `target_kv`: as of `final_cells`. Call inside a program.
std::vector<speculation::draft> draft_below_hypotheses(device::ops& ops, const scheduling::plan_item& item,
                                                       speculation::drafter& drafter,
                                                       const open_sessions& open, model::kv_storage* kv,
                                                       std::uint32_t target_block_size,
                                                       const model::kv_storage* target_kv = nullptr);

/// The same for a drafter in whose lease each hypothesis has cells of its own. `empty`: a session of the
/// request that has read no token.
std::vector<speculation::draft> draft_in_own_cells(device::ops& ops, const scheduling::plan_item& item,
                                                   speculation::drafter& drafter, hypothesis_cells& cells,
                                                   const speculation::drafter_session& empty,
                                                   model::kv_storage& kv, std::uint32_t target_block_size,
                                                   const model::kv_storage* target_kv = nullptr);

} // namespace paceline::rounds
