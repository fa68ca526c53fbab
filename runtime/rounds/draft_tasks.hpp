#pragma once

#include "runtime/scheduling/round.hpp"
#include "runtime/speculation/drafters/drafter.hpp"

#include <cstdint>
#include <span>

namespace paceline::rounds {

/// The blocks of `item`'s lease in the drafter's pool that hold the text and the draft: all except the spare
/// blocks at the end.
std::span<const block_id> text_blocks(const scheduling::plan_item& item);

/// A drafter's task for `item` with only those fields that do not depend on committed tokens. The caller sets
/// the tokens, their counts, the blocks and cells, the last round, the session, the constraint and
/// `result.base_length`. Reads nothing that verify programs write, so it may be called while one runs.
speculation::draft_task lasting_task(const scheduling::plan_item& item, scheduling::draft_bounds limit);

/// The target's cells of `item`'s committed tokens except the newest one, whose row is not computed yet.
/// `kv`: the target's pool. The result is empty if `kv` is null, or if the log belongs to another admission
/// than `item`. Call it in a program, after the request's previous round and before the pass of `item`'s
/// round: in a worker's draft program, or in the verify program. Until that pass no program writes these
/// cells, and their blocks stay leased.
speculation::target_cells final_cells(const scheduling::plan_item& item, const model::kv_storage* kv);

/// A drafter's task for `item` except `target_cells` and `num_alternates`. Its result has no draft tokens
/// yet. Call it when `final_cells` may be called. `session`: the drafter's session of this request.
/// `constraint`: a cursor of the request's constraint that belongs to the running program; null: no
/// constraint.
speculation::draft_task make_task(const scheduling::plan_item& item, scheduling::draft_bounds limit,
                                  speculation::drafter_session* session, constraint_cursor* constraint);

/// Removes the draft tokens that the constraint does not allow, and everything below them, so that the target
/// computes no rows for them. All other probes stay, even if no token is left, because the drafter learns
/// from probes. Changes nothing if there is no constraint, if the draft is stale, or if its tokens were
/// drawn. In the last case the verification rule must see every token.
void drop_disallowed(speculation::draft& made, const scheduling::committed_log& log,
                     constraint_cursor* constraint);

} // namespace paceline::rounds
