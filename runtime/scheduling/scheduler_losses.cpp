#include "runtime/scheduling/scheduler_state.hpp"

#include <algorithm>

// Parts of the model that failed for good, and drafters that failed.

namespace paceline::scheduling {

void scheduler_state::note_drafters(const round_result& result, time_point now) {
  for (const auto& [drafter, why] : result.failed_drafters) {
    ++counters_.drafters[drafter.value].num_failures;
    if (slot_of(drafter).worker) rests_.failed(drafter, now); // the runner keeps track of in-line drafters
  }
  const auto failed = [&](drafter_index drafter) {
    return std::ranges::find(result.failed_drafters, drafter, &failed_drafter::drafter) !=
           result.failed_drafters.end();
  };
  for (const auto& spent : result.drafting)
    if (spent.num_drafted > 0 && !failed(spent.drafter)) rests_.drafted(spent.drafter);
  for (const auto& item : result.items) // workers may have drafted for beam searches only
    if (item.num_draft > 0 && !failed(item.drafter)) rests_.drafted(item.drafter);
}

bool scheduler_state::rests(drafter_index drafter) const {
  return lost_workers_.contains(drafter) || rests_.rests(drafter);
}

std::vector<drafter_index> scheduler_state::resting_workers() const {
  std::vector<drafter_index> all;
  for (drafter_index d{1}; d.value < options_.drafters.size(); ++d.value)
    if (slot_of(d).worker && rests(d)) all.push_back(d);
  return all;
}

/// Rounds in flight may still run, or may never return. The cells of this model's pools belong to no other
/// model, so writes of such a round are harmless. The blocks are therefore returned at once, and other models
/// may use their bytes.
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

/// True if a round in flight uses the request's lease in its worker's pool.
bool scheduler_state::asks_worker(const record& r) const {
  return std::ranges::any_of(rounds_in_flight_, [&](const auto& f) {
    return std::ranges::any_of(
        f.second.parts, [&](const auto& part) { return part.asks_worker && part.request == r.request.id(); });
  });
}

/// True if the request's worker is lost, or if "auto" advises another worker and this one rests, or has not
/// been advised for some results. The other worker has to read the request's text, so a request does not
/// change its worker at once.
bool scheduler_state::can_do_without_worker(const record& r) const {
  constexpr std::uint32_t patience = 4;
  if (!r.worker) return false;
  if (lost_workers_.contains(*r.worker)) return true;
  const bool is_advised_another = !by_worker(r) && r.advice.drafter && !rests(*r.advice.drafter);
  return is_advised_another && (rests(*r.worker) || r.num_contrary >= patience);
}

/// Returns the lease in the pool of a worker that is not needed, once no round in flight uses it. With "auto"
/// another worker may then draft for the request.
void scheduler_state::leave_worker(request_id request, decisions& out) {
  auto* r = find(request);
  if (!r || !can_do_without_worker(*r) || asks_worker(*r)) return;
  ledger_.return_drafter_lease(request, out.pool);
  if (!by_worker(*r)) r->worker.reset(), r->num_contrary = 0;
  ledger_.tell(request, use_of(*r));
}

/// Requests with that drafter continue without drafts.
decisions scheduler_state::on_worker_lost(drafter_index drafter, time_point now) {
  decisions out;
  lost_workers_.insert(drafter);
  // A copy, because a request that has ended may have waited for an answer of the drafter's pool only.
  for (auto id : std::vector(running_)) {
    leave_worker(id, out);
    retire_if_idle(id, out);
  }
  pump(out, now);
  return out;
}

} // namespace paceline::scheduling
