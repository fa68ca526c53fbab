#pragma once

#include "runtime/base/clock.hpp"
#include "runtime/scheduling/foreseen_drafts.hpp"
#include "runtime/scheduling/round.hpp"

#include <cstdint>
#include <vector>

namespace paceline::scheduling {

/// The programs of a draft worker: one drafter, its own KV.
class draft_runner {
 public:
  /// `index` is the drafter's number in the plan. `num_guesses`: of mode `outcomes`, at each place.
  draft_runner(speculation::drafter& drafter, std::uint32_t index, model::kv_storage* kv,
               std::uint32_t target_block_size, std::uint32_t context_length, const clock& time,
               std::uint32_t num_guesses = 1);

  /// Fills `batch.drafts` for the items of `plan` that use this drafter and are ready to be drafted for.
  void run(device::ops& ops, const round_plan& plan, draft_batch& batch);
  /// Drafts for `next` while the round before it is verified; `verdict` passes once it is. Before `run`, on
  /// its stream.
  void run_ahead(device::ops& ops, const round_plan& next, const device::fence& verdict) {
    foreseen_.draft(ops, next, verdict);
  }

 private:
  bool drafts_for(const plan_item& item) const;
  void draft_for_beams(device::ops& ops, const round_plan& plan, draft_batch& batch);

  speculation::drafter* drafter_;
  std::uint32_t index_;
  model::kv_storage* kv_;
  std::uint32_t target_block_size_;
  std::uint32_t context_length_;
  const clock* time_;
  std::uint32_t num_guesses_;
  foreseen_drafts foreseen_;
};

/// Drafts below each hypothesis of a beam search, best first, as far as the lease of the target has cells for
/// them. None if it is not the time for drafts. `kv`: storage of the drafter's own pool. Call inside a
/// program.
std::vector<speculation::draft> draft_below_hypotheses(device::ops& ops, const plan_item& item,
                                                       std::uint32_t index, speculation::drafter& drafter,
                                                       model::kv_storage* kv,
                                                       std::uint32_t target_block_size);

} // namespace paceline::scheduling
