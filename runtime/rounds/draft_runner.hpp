#pragma once

#include "runtime/base/clock.hpp"
#include "runtime/rounds/draft_sessions.hpp"
#include "runtime/rounds/foreseen_drafts.hpp"
#include "runtime/scheduling/round.hpp"
#include "runtime/speculation/drafters/drafter.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace paceline::rounds {

/// The code of a draft worker's programs. A worker has one drafter, which may have a KV pool of its own. All
/// functions are called by programs of the worker's stream.
class draft_runner {
 public:
  /// `index`: the drafter's index in plans. `kv`: storage of the drafter's own pool; null if it has none.
  /// `num_guesses`: in overlap mode `outcomes`, the number of guesses of the target's token at each position.
  /// `target_kv`: the target's pool, for a drafter that reads the target's cells.
  draft_runner(speculation::drafter& drafter, drafter_index index, model::kv_storage* kv,
               std::uint32_t target_block_size, std::uint32_t context_length, const clock& time,
               std::uint32_t num_guesses = 1, const model::kv_storage* target_kv = nullptr);

  /// Fills `batch` with drafts for the items of `plan` that use this drafter and can have a draft now. If the
  /// drafter fails, `batch.failure` is set.
  void run(device::ops& ops, const scheduling::round_plan& plan, scheduling::draft_batch& batch);
  /// Releases requests that have ended, as `run` does. To be called if `run` may not be called for a while.
  void drop_ended() {
    sessions_.drop_ended();
    foreseen_.drop_ended();
  }
  /// Releases all requests. To be called if the drafter will not be asked again.
  void drop_all() {
    sessions_.drop_all();
    foreseen_.drop_all();
  }
  /// Makes drafts for round `next` while the group's previous round is being verified. Fence `verdict` passes
  /// once that round is verified. Call it in a program of the same stream, before the one that calls `run`
  /// for `next`.
  void run_ahead(device::ops& ops, const scheduling::round_plan& next, const device::fence& verdict) {
    foreseen_.draft(ops, next, verdict);
  }

 private:
  bool drafts_for(const scheduling::plan_item& item) const;
  bool enter_lease(device::ops& ops, const scheduling::plan_item& item);
  void fail(const scheduling::round_plan& plan, scheduling::draft_batch& batch, const std::string& why);
  void keep_draft(const scheduling::plan_item& item, std::size_t index, speculation::draft&& made,
                  scheduling::draft_batch& batch);
  void draft_for_texts(device::ops& ops, const scheduling::round_plan& plan, scheduling::draft_batch& batch);
  void draft_for_beams(device::ops& ops, const scheduling::round_plan& plan, scheduling::draft_batch& batch);
  std::vector<speculation::draft> drafts_of_hypotheses(device::ops& ops, const scheduling::plan_item& item);

  speculation::drafter* drafter_;
  drafter_index index_;
  model::kv_storage* kv_;
  const model::kv_storage* target_kv_; ///< null unless the drafter reads it
  std::uint32_t target_block_size_;
  std::uint32_t context_length_;
  const clock* time_;
  std::uint32_t num_guesses_;
  draft_sessions sessions_;
  foreseen_drafts foreseen_; ///< refers to `sessions_`
};

} // namespace paceline::rounds
