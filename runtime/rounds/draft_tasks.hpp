#pragma once

#include "runtime/scheduling/round.hpp"
#include "runtime/speculation/drafters/drafter.hpp"

#include <cstdint>
#include <span>

namespace paceline::rounds {

/// The part of an item's lease in the drafter's pool that holds its text.
std::span<const block_id> text_blocks(const scheduling::plan_item& item);

/// The part of a drafter's task for `item` that no round changes: everything except the text, its counts,
/// cells and session. May be called at the same time as the target's programs.
speculation::draft_task lasting_task(const scheduling::plan_item& item, scheduling::draft_bounds limit);

/// A drafter's task for `item`, with an empty result. `session` is the drafter's session of this request.
speculation::draft_task make_task(const scheduling::plan_item& item, scheduling::draft_bounds limit,
                                  speculation::drafter_session* session);

} // namespace paceline::rounds
