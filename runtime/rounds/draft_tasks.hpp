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

/// The target's cells of what `item`'s log has committed, in its pool `kv`. Only in a program that runs
/// behind the round before the item's and before its own, as those of workers do: what is committed then has
/// cells that no program writes, and the blocks are given back after the item's round.
speculation::target_cells final_cells(const scheduling::plan_item& item, const model::kv_storage* kv);

/// A drafter's task for `item`, with an empty result. `session`: the drafter's with this request.
/// `constraint`: a place in what the output must match, of the program that runs; null: anything.
speculation::draft_task make_task(const scheduling::plan_item& item, scheduling::draft_bounds limit,
                                  speculation::drafter_session* session, constraint_cursor* constraint);

/// Drops from a draft that continues the request's text what its constraint does not allow, so that the
/// target computes no rows for it. Drawn tokens stay: the rule must see every token that was drawn.
void drop_disallowed(speculation::draft& made, const scheduling::committed_log& log,
                     constraint_cursor* constraint);

} // namespace paceline::rounds
