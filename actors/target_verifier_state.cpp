#include "actors/target_verifier_state.hpp"

#include <algorithm>
#include <utility>

namespace paceline::actors {

using scheduling::draft_batch;
using scheduling::round_plan;
using scheduling::round_result;

target_verifier_state::target_verifier_state(device::stream& stream, rounds::round_runner& runner,
                                             std::uint32_t num_pools)
    : stream_(&stream), runner_(&runner), num_pools_(num_pools) {}

verifier_actions target_verifier_state::on_round(std::shared_ptr<const round_plan> plan) {
  verifier_actions out;
  waiting_round round;
  for (const auto& item : plan->items)
    if (item.worker && std::ranges::find(round.missing, *item.worker) == round.missing.end())
      round.missing.push_back(*item.worker);
  for (const auto& [drafter, done] : lost_workers_)
    if (std::erase(round.missing, drafter) > 0) go_on_without(round, done);
  const auto group = plan->group;
  round.plan = std::move(plan);
  waiting_[group].push_back(std::move(round));
  advance(group, out);
  return out;
}

verifier_actions target_verifier_state::on_drafts(round_id round, drafter_index drafter, epoch from,
                                                  std::shared_ptr<draft_batch> drafts, device::fence ready) {
  verifier_actions out;
  if (from != epoch_) return out; // requested by a previous verifier; this verifier has asked again
  for (auto& [group, queue] : waiting_) {
    if (queue.empty() || queue.front().plan->round != round) continue;
    auto& head = queue.front();
    if (std::erase(head.missing, drafter) == 0) return out; // already answered
    head.drafts.push_back(std::move(drafts));
    head.ready.push_back(std::move(ready));
    advance(group, out);
    return out;
  }
  return out;
}

verifier_actions target_verifier_state::on_passed(round_id round) {
  verifier_actions out;
  const auto it = enqueued_.find(round);
  if (it == enqueued_.end() || !it->second.fence.passed()) return out;
  auto done = std::move(it->second);
  enqueued_.erase(it);
  if (!done.result->started && enqueue_again(done, out)) return out;
  if (const auto failure = done.fence.failure()) done.result->failure = failure;
  for (const auto& batch : done.drafts) {
    if (batch && batch->pool) done.result->submissions[batch->pool->value] = batch->submission;
    if (batch && batch->failure) done.result->failed_drafters.push_back({batch->drafter, *batch->failure});
  }
  unacknowledged_[round] = done.result;
  out.reports.push_back(done.result);
  return out;
}

void target_verifier_state::go_on_without(waiting_round& round, const device::fence& done) {
  round.drafts.push_back(nullptr);
  round.ready.push_back(done);
}

/// Handles `skipped`, whose program did not begin. Returns true if it is enqueued again: without its drafts
/// if these were lost, or after the group's previous round if that round did not begin either.
bool target_verifier_state::enqueue_again(enqueued_round& skipped, verifier_actions& out) {
  const auto lost = [](const device::fence& ready) { return ready.failure().has_value(); };
  auto& result = *skipped.result;
  if (!std::exchange(result.stood_aside, false)) {
    if (std::ranges::none_of(skipped.ready, lost)) return false; // the verifier's own stream has failed
  }
  // If the previous round is enqueued again, the drafts of this one were lost with it.
  if (skipped.before && !enqueued_.contains(skipped.before->round)) skipped.before.reset();
  for (std::size_t i = 0; i < skipped.drafts.size() && !skipped.before; ++i)
    if (skipped.drafts[i] && lost(skipped.ready[i]))
      result.failed_drafters.push_back({skipped.drafts[i]->drafter, *skipped.ready[i].failure()});
  skipped.drafts.clear();
  skipped.ready.clear();
  enqueue(std::move(skipped), out);
  return true;
}

verifier_actions target_verifier_state::restart() {
  verifier_actions out = report_again();
  epoch_ = epoch{epoch_.value + 1};
  for (auto& [round, e] : enqueued_) out.watches.push_back({round, e.fence});
  for (auto& [group, queue] : waiting_) {
    if (queue.empty() || !queue.front().asked) continue;
    for (auto drafter : queue.front().missing) ask(queue.front(), drafter, out);
  }
  return out;
}

verifier_actions target_verifier_state::on_worker_replaced(drafter_index drafter) {
  verifier_actions out;
  for (auto& [group, queue] : waiting_)
    if (!queue.empty() && queue.front().asked &&
        std::ranges::find(queue.front().missing, drafter) != queue.front().missing.end())
      ask(queue.front(), drafter, out);
  return out;
}

verifier_actions target_verifier_state::on_worker_lost(drafter_index drafter, device::fence done) {
  verifier_actions out;
  lost_workers_.insert_or_assign(drafter, done);
  for (auto& [group, queue] : waiting_) {
    for (auto& round : queue)
      if (std::erase(round.missing, drafter) > 0) go_on_without(round, done);
    advance(group, out);
  }
  return out;
}

verifier_actions target_verifier_state::report_again() const {
  verifier_actions out;
  for (const auto& [round, result] : unacknowledged_) out.reports.push_back(result);
  return out;
}

std::vector<round_id> target_verifier_state::known_rounds() const {
  std::vector<round_id> known;
  for (const auto& [group, queue] : waiting_)
    for (const auto& round : queue) known.push_back(round.plan->round);
  for (const auto& [round, e] : enqueued_) known.push_back(round);
  for (const auto& [round, result] : unacknowledged_) known.push_back(round);
  return known;
}

void target_verifier_state::advance(group_id group, verifier_actions& out) {
  auto& queue = waiting_[group];
  while (!queue.empty()) {
    auto& head = queue.front();
    if (!head.asked) {
      head.asked = true;
      for (auto drafter : head.missing) ask(head, drafter, out);
    }
    if (!head.missing.empty()) return;
    auto result = std::make_shared<round_result>();
    result->round = head.plan->round;
    result->group = group;
    result->submissions.resize(num_pools_);
    enqueued_round next{std::move(head.plan), std::move(head.drafts), std::move(head.ready),
                        last_result(group),   std::move(result),      {}};
    queue.pop_front();
    enqueue(std::move(next), out);
  }
}

void target_verifier_state::ask(waiting_round& round, drafter_index drafter, verifier_actions& out) const {
  const auto last = last_fence_.find(round.plan->group);
  out.asks.push_back({drafter, round.plan, last == last_fence_.end() ? device::fence{} : last->second});
}

/// The result of the last round enqueued in `group` if it is not reported yet, otherwise null.
std::shared_ptr<const round_result> target_verifier_state::last_result(group_id group) const {
  std::shared_ptr<const round_result> last;
  for (const auto& [round, e] : enqueued_) // in the order of rounds
    if (e.plan->group == group) last = e.result;
  return last;
}

void target_verifier_state::enqueue(enqueued_round round, verifier_actions& out) {
  auto work = [runner = runner_, plan = round.plan, drafts = round.drafts, before = round.before,
               result = round.result, abandoned = abandoned_](device::ops& ops) {
    if (abandoned->load(std::memory_order_relaxed)) return;
    result->stood_aside = before && !before->started;
    if (!result->stood_aside) runner->run(ops, *plan, drafts, *result);
  };
  const auto id = round.plan->round;
  // No other actor submits to this stream, so its next number is known.
  round.result->submissions[target_pool.value] = stream_->submitted() + 1;
  round.fence = stream_->submit("verify", round.ready, std::move(work));
  last_fence_[round.plan->group] = round.fence;
  out.watches.push_back({id, round.fence});
  enqueued_.insert_or_assign(id, std::move(round));
}

std::string target_verifier_state::check_invariants() const {
  for (const auto& [group, queue] : waiting_)
    for (std::size_t i = 1; i < queue.size(); ++i) {
      if (queue[i].asked) return "group " + to_string(group) + " drafts for a round behind its first";
      if (queue[i].plan->round <= queue[i - 1].plan->round)
        return "group " + to_string(group) + " is out of order";
    }
  for (const auto& [round, e] : enqueued_)
    if (unacknowledged_.contains(round)) return "round " + to_string(round) + " is enqueued and reported";
  return {};
}

} // namespace paceline::actors
