#pragma once

#include "runtime/scheduling/round.hpp"

#include <cstdint>
#include <span>

namespace paceline::scheduling {

/// The part of an item's lease in the drafter's pool that holds its text.
std::span<const block_id> text_blocks(const plan_item& item);

/// What of a drafter's task for `item` no round changes: all but the text, its counts, cells and session. May
/// be called beside the target's programs.
speculation::draft_task lasting_task(const plan_item& item, draft_bounds limit);

/// The task drafter number `index` gets for `item`, with an empty result.
speculation::draft_task make_task(const plan_item& item, std::uint32_t index, speculation::drafter& drafter,
                                  draft_bounds limit);

} // namespace paceline::scheduling
