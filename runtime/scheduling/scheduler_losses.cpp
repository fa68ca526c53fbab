#include "runtime/scheduling/scheduler_state.hpp"

#include <algorithm>

// What the scheduler can no longer count on: parts of the model that failed for good, drafters that fail.

namespace paceline::scheduling {

void scheduler_state::note_drafters(const round_result& result, time_point now) {
  for (const auto& [drafter, why] : result.failed_drafters) {
    ++counters_.drafters[drafter].num_failures;
    rests_.failed(drafter_index{drafter}, now);
  }
  for (const auto& spent : result.drafting)
    if (spent.num_drafted > 0 && std::ranges::find(result.failed_drafters, spent.drafter,
                                                   &failed_drafter::drafter) == result.failed_drafters.end())
      rests_.drafted(drafter_index{spent.drafter});
}

bool scheduler_state::rests(std::uint32_t drafter) const {
  return lost_workers_.contains(drafter) || rests_.rests(drafter_index{drafter});
}

/// Rounds in flight may still run: their requests keep their blocks until they are reported, which may be
/// never. Nobody else uses these blocks, since the model takes no new requests.
decisions scheduler_state::take_out_of_service(error why) {
  decisions out;
  if (out_of_service_) return out;
  out_of_service_ = std::move(why);
  std::vector<request_id> open;
  for (const auto& [id, r] : requests_)
    if (r.state != phase::closing) open.push_back(id);
  for (auto id : open) finish_here(requests_.at(id), finish_reason::error, out_of_service_, out);
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
