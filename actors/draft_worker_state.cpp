#include "actors/draft_worker_state.hpp"

#include <algorithm>
#include <utility>

namespace paceline::actors {

draft_worker_state::draft_worker_state(device::stream& stream, rounds::draft_runner& runner,
                                       drafter_index drafter, std::optional<pool_number> pool)
    : stream_(&stream), runner_(&runner), drafter_(drafter), pool_(pool) {}

enqueued_draft draft_worker_state::on_request(const std::shared_ptr<const scheduling::round_plan>& plan,
                                              const device::fence& after) {
  const auto in_advance = [&](const auto& item) {
    return item.worker == drafter_ && item.ahead != ahead_mode::off;
  };
  if (std::ranges::any_of(plan->items, in_advance) && !after.passed())
    stream_->submit("ahead", {}, [runner = runner_, plan, after](device::ops& ops) {
      runner->run_ahead(ops, *plan, after);
    });
  auto drafts = std::make_shared<scheduling::draft_batch>();
  drafts->drafter = drafter_; // the program may never run, so the batch names its drafter from the start
  drafts->pool = pool_;
  drafts->submission = stream_->submitted() + 1;
  auto work = [runner = runner_, plan, drafts](device::ops& ops) { runner->run(ops, *plan, *drafts); };
  auto ready = stream_->submit("draft", {after}, std::move(work));
  return {std::move(drafts), std::move(ready)};
}

device::fence draft_worker_state::programs_done() {
  return stream_->submit("end", {}, [runner = runner_](device::ops&) { runner->drop_all(); });
}

} // namespace paceline::actors
