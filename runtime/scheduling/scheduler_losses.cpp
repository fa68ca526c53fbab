#include "runtime/scheduling/scheduler_state.hpp"

#include <algorithm>

// What the scheduler can no longer count on: parts of the model that failed for good, drafters that fail.

namespace paceline::scheduling {

namespace {

constexpr std::chrono::nanoseconds shortest_rest = std::chrono::seconds(1);
constexpr std::chrono::nanoseconds longest_rest = std::chrono::minutes(1);

} // namespace

/// A drafter that failed rests, twice as long each time that it fails again; one that drafts has recovered.
void scheduler_state::note_drafters(const round_result& result, time_point now) {
  for (auto drafter : result.failed_drafters) {
    ++counters_.drafters[drafter].num_failures;
    auto& rest = rests_[drafter];
    if (rest.length.count() != 0 && !rest.over) continue; // asked before the failure was known
    rest.length = std::clamp(rest.length * 2, shortest_rest, longest_rest);
    rest.until = now + rest.length;
    rest.over = false;
  }
  for (const auto& spent : result.drafting)
    if (const auto it = rests_.find(spent.drafter);
        it != rests_.end() && it->second.over && spent.num_drafted > 0 &&
        std::ranges::find(result.failed_drafters, spent.drafter) == result.failed_drafters.end())
      rests_.erase(it);
}

void scheduler_state::wake_drafters(time_point now) {
  for (auto& [drafter, rest] : rests_) rest.over |= now >= rest.until;
}

bool scheduler_state::rests(std::uint32_t drafter) const {
  const auto it = rests_.find(drafter);
  return lost_workers_.contains(drafter) || (it != rests_.end() && !it->second.over);
}

/// Rounds in flight may still run, or never come back. Cells of this model's pools belong to nobody else, so
/// what such a round writes harms nobody: the blocks go back at once, and with them the bytes that other
/// models may borrow.
decisions scheduler_state::take_out_of_service(error why) {
  decisions out;
  if (out_of_service_) return out;
  out_of_service_ = std::move(why);
  std::vector<request_id> open;
  for (const auto& [id, r] : requests_)
    if (r.state != phase::closing) open.push_back(id);
  for (auto id : open) finish_here(requests_.at(id), finish_reason::error, out_of_service_, out);
  out.pool.emplace_back(retain_command{});
  return out;
}

/// Requests with that drafter go on plainly.
decisions scheduler_state::on_worker_lost(std::uint32_t drafter, time_point now) {
  decisions out;
  lost_workers_.insert(drafter);
  pump(out, now);
  return out;
}

} // namespace paceline::scheduling
