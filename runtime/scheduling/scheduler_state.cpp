#include "runtime/scheduling/scheduler_state.hpp"

#include "runtime/scheduling/committed_log.hpp"
#include "runtime/scheduling/request_terms.hpp"

#include "runtime/base/final_event.hpp"

#include <algorithm>

namespace paceline::scheduling {

namespace {

constexpr std::size_t max_tombstones = 4096;

} // namespace

scheduler_state::scheduler_state(scheduler_options options)
    : options_(std::move(options)), ledger_(options_.block_size), overlap_(options_.overlap) {
  counters_.drafters.resize(options_.drafters.size());
  draft_step_.resize(options_.drafters.size());
  pass_costs_.calibrate(options_.pass_times);
}

decisions scheduler_state::submit(admitted_request request, drafter_index drafter, std::uint64_t credit,
                                  time_point now) {
  decisions out;
  const auto id = request.id();
  // A request that was submitted again after a restart; grants may have been lost.
  if (auto* known = find(id)) {
    known->credit = std::max(known->credit, credit);
    pump(out, now);
    return out;
  }
  if (ended_.contains(id)) return out;
  const auto refuse = [&](finish_reason reason, std::optional<error> failure) {
    count_finish(reason);
    out.events.push_back(final_event(id, reason, std::move(failure)));
    return std::move(out);
  };
  if (tombstones_.erase(id) > 0) return refuse(finish_reason::cancelled, std::nullopt);
  if (out_of_service_) return refuse(finish_reason::error, out_of_service_);
  if (device_lost())
    return refuse(finish_reason::error, error{errc::device_lost, "the device does not answer"});
  if (draining_) return refuse(finish_reason::error, error{errc::draining, "the server is shutting down"});
  if (num_waiting() >= options_.max_waiting) {
    ++counters_.num_queue_full;
    return refuse(finish_reason::error,
                  error{errc::queue_full,
                        "the queue holds " + std::to_string(options_.max_waiting) + " requests already"});
  }
  record r;
  r.request = std::move(request);
  r.drafter = drafter;
  const auto& slot = options_.drafters.at(drafter.value);
  if (slot.worker) r.worker = drafter;
  r.draft_length = r.request.terms->request().speculation.draft_length.value_or(slot.default_draft_length);
  if (drafter == plain_decoding) r.draft_length = 0;
  r.lengths = {r.request.terms->request().speculation.length_rule.value_or(slot.length_rule), r.draft_length};
  r.beam_width = r.request.terms->request().beams.width;
  r.credit = credit;
  r.known_length = r.request.log->length();
  r.deadline = now + r.request.terms->request().timeout;
  const std::uint64_t pool_positions = std::uint64_t{options_.num_blocks} * options_.block_size;
  if (max_positions(r) > pool_positions)
    return refuse(finish_reason::error,
                  error{errc::context_length_exceeded,
                        "prompt and max_tokens need " + std::to_string(max_positions(r)) +
                            " positions, the KV pool has " + std::to_string(pool_positions)});
  if (const auto needed = least_state_slots(r.beam_width);
      options_.state_interval != 0 && needed > options_.num_state_slots)
    return refuse(finish_reason::error,
                  error{errc::invalid_argument, "beam search of width " + std::to_string(r.beam_width) +
                                                    " needs " + std::to_string(needed) +
                                                    " state slots, the KV pool has " +
                                                    std::to_string(options_.num_state_slots)});
  counters_.prompt_tokens += r.request.terms->prompt_length();
  requests_.emplace(id, std::move(r));
  ledger_.open(id);
  enqueue(id);
  pump(out, now);
  return out;
}

decisions scheduler_state::cancel(request_id request, time_point now) {
  decisions out;
  auto* r = find(request);
  if (!r) { // the message may have overtaken the request itself
    tombstones_.insert(request);
    if (tombstones_.size() > max_tombstones) tombstones_.erase(tombstones_.begin());
    return out;
  }
  if (r->state != phase::closing) finish_here(*r, finish_reason::cancelled, std::nullopt, out);
  pump(out, now);
  return out;
}

decisions scheduler_state::grant(request_id request, std::uint64_t tokens, time_point now) {
  decisions out;
  if (auto* r = find(request)) {
    r->credit = std::max(r->credit, tokens);
    pump(out, now);
  }
  return out;
}

decisions scheduler_state::on_tick(time_point now, const session_lookup& has_session) {
  decisions out;
  blocks_given_up_ = false; // shared blocks are returned without a message
  watch_rounds(out, now);
  std::vector<request_id> late, left;
  for (const auto& [id, r] : requests_) {
    if (r.state == phase::closing) continue;
    if (!has_session(id))
      left.push_back(id);
    else if (now >= r.deadline)
      late.push_back(id);
  }
  for (auto id : left) finish_here(requests_.at(id), finish_reason::cancelled, std::nullopt, out);
  for (auto id : late)
    finish_here(requests_.at(id), finish_reason::error,
                error{errc::deadline_exceeded, "the request took longer than its timeout"}, out);
  pump(out, now);
  return out;
}

void scheduler_state::pump(decisions& out, time_point now) {
  if (device_lost() || out_of_service_) return;
  rests_.wake(now);
  for (std::uint32_t g = 0; g < num_groups_; ++g)
    while (in_flight(group_id{g}) < depth(group_id{g})) {
      const auto before = out.rounds.size();
      compose(group_id{g}, out, now);
      if (out.rounds.size() == before) break;
    }
  give_up_slot(out, now);
  admit(out);
}

void scheduler_state::finish_here(record& r, finish_reason reason, std::optional<error> failure,
                                  decisions& out) {
  const auto id = r.request.id();
  count_finish(reason);
  out.events.push_back(final_event(id, reason, std::move(failure)));
  if (r.state == phase::waiting || r.state == phase::acquiring) { // a pending answer will return its blocks
    std::erase(queue_, id);
    ledger_.close(id);
    forget(id);
    return;
  }
  r.state = phase::closing;
  ledger_.tell(id, use_of(r));
  retire_if_idle(id, out);
}

/// Removes a request that ends or is preempted, once nothing of it is in flight.
void scheduler_state::retire_if_idle(request_id request, decisions& out) {
  auto* r = find(request);
  if (!r || !ledger_.idle(request)) return;
  if (r->state == phase::closing) {
    ledger_.ended(request, out.pool);
    std::erase(running_, request);
    forget(request);
  } else if (r->state == phase::running && ledger_.gives_way(request)) {
    preempt(*r, out);
    queue_.push_front(request);
  }
}

void scheduler_state::preempt(record& r, decisions& out) {
  ++counters_.num_preemptions;
  ledger_.preempted(r.request.id(), out.pool);
  if (!by_worker(r)) r.worker.reset(), r.advice = {}, r.num_contrary = 0;
  wait_for_memory(r);
  r.stalled_since.reset();
  std::erase(running_, r.request.id());
}

void scheduler_state::forget(request_id request) {
  requests_.erase(request);
  ended_.insert(request);
  if (ended_.size() > max_tombstones) ended_.erase(ended_.begin());
}

void scheduler_state::count_finish(finish_reason reason) {
  switch (reason) {
  case finish_reason::stop:
    ++counters_.finished_stop;
    break;
  case finish_reason::length:
    ++counters_.finished_length;
    break;
  case finish_reason::cancelled:
    ++counters_.finished_cancelled;
    break;
  case finish_reason::error:
    ++counters_.finished_error;
    break;
  case finish_reason::none:
    break;
  }
}

scheduler_state::record* scheduler_state::find(request_id request) {
  const auto it = requests_.find(request);
  return it == requests_.end() ? nullptr : &it->second;
}

std::uint32_t scheduler_state::num_running() const { return static_cast<std::uint32_t>(running_.size()); }

std::uint32_t scheduler_state::num_waiting() const { return static_cast<std::uint32_t>(queue_.size()); }

} // namespace paceline::scheduling
