#pragma once

#include "runtime/scheduling/round.hpp"
#include "runtime/speculation/drafters/drafter.hpp"

#include <cstdint>
#include <span>

namespace paceline::rounds {

/// The part of an item's lease in the drafter's pool that holds its text.
std::span<const block_id> text_blocks(const scheduling::plan_item& item);

/// The part of a drafter's task for `item` that verify programs do not change: everything except the text and
/// the text's counts, cells and session. May be called while the target's programs run.
speculation::draft_task lasting_task(const scheduling::plan_item& item, scheduling::draft_bounds limit);

/// The target's cells of the tokens that `item`'s log has committed; `kv` is the target's pool. May only be
/// called in a program that runs after the request's previous round and before the item's round, as the
/// programs of workers do. Meanwhile no program writes these cells, and their blocks stay leased.
speculation::target_cells final_cells(const scheduling::plan_item& item, const model::kv_storage* kv);

/// A drafter's task for `item`, with an empty result. `session`: the drafter's with this request.
/// `constraint`: a cursor of the request's constraint that belongs to the running program; null: no
/// constraint.
speculation::draft_task make_task(const scheduling::plan_item& item, scheduling::draft_bounds limit,
                                  speculation::drafter_session* session, constraint_cursor* constraint);

/// Drops from a draft that continues the request's text the tokens that the constraint does not allow, so
/// that the target computes no rows for them. Drawn tokens stay: the rule must see every token that was
/// drawn.
void drop_disallowed(speculation::draft& made, const scheduling::committed_log& log,
                     constraint_cursor* constraint);

} // namespace paceline::rounds
