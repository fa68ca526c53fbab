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

/// Returns the drafter session of each hypothesis. `outputs`: the output tokens of each hypothesis. If the
/// drafter has a model of its own, the hypotheses use one session in turn, and all results are that session.
using open_sessions =
    std::function<std::vector<speculation::drafter_session*>(std::span<const std::vector<token_id>> outputs)>;

/// Upper bounds of the draft tree below each hypothesis of a beam search. They follow from the plan, the
/// remaining output, and the free cells and state slots of the lease in the target's pool, which the
/// hypotheses share equally. `block_size`: of the target's pool.
scheduling::draft_bounds limit_below_hypotheses(const scheduling::plan_item& item, const beam_search& beams,
                                                std::uint32_t block_size);

/// Makes a draft below each hypothesis of a beam search, in the order of the hypotheses (best first), within
/// `limit_below_hypotheses`. Empty if the search may not draft now (`beam_search::may_draft`) or if the
/// bounds are 0. `kv`: storage of the drafter's own pool, whose lease the hypotheses use in turn; null if it
/// has none. `target_kv`: as in `final_cells`. Call inside a program.
std::vector<speculation::draft> draft_below_hypotheses(device::ops& ops, const scheduling::plan_item& item,
                                                       speculation::drafter& drafter,
                                                       const open_sessions& open, model::kv_storage* kv,
                                                       std::uint32_t target_block_size,
                                                       const model::kv_storage* target_kv = nullptr);

/// The same for a drafter in whose lease each hypothesis has cells of its own (`cells`). `empty`: a session
/// of the request that has read no token. A hypothesis for which the lease has no blocks gets an empty draft.
std::vector<speculation::draft> draft_in_own_cells(device::ops& ops, const scheduling::plan_item& item,
                                                   speculation::drafter& drafter, hypothesis_cells& cells,
                                                   const speculation::drafter_session& empty,
                                                   model::kv_storage& kv, std::uint32_t target_block_size,
                                                   const model::kv_storage* target_kv = nullptr);

} // namespace paceline::rounds
