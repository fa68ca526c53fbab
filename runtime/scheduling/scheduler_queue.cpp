#include "runtime/scheduling/request_terms.hpp"
#include "runtime/scheduling/scheduler_state.hpp"

#include <algorithm>
#include <string_view>

// The queue of waiting requests and its order, and running requests that give up a slot for waiting ones.

namespace paceline::scheduling {

/// Inserts the request before those of lower priority. At equal priority owners take turns: the k-th waiting
/// request of each owner comes before the (k+1)-th of any other owner.
void scheduler_state::enqueue(request_id request) {
  const auto& own = requests_.at(request).request.terms->request();
  const auto waits = [&](request_id id) { return requests_.at(id).state == phase::waiting; };
  const auto terms_of = [&](request_id id) -> const auto& {
    return requests_.at(id).request.terms->request();
  };
  const auto is_own = [&](request_id id) {
    return terms_of(id).priority == own.priority && terms_of(id).owner == own.owner;
  };
  const auto turn = 1 + std::ranges::count_if(queue_, is_own);
  std::map<std::string_view, std::ptrdiff_t> turns; // number of requests seen so far, by owner
  auto place = queue_.end();
  for (auto other = queue_.begin(); other != queue_.end(); ++other) {
    const auto& terms = terms_of(*other);
    const bool comes_later = terms.priority == own.priority ? ++turns[terms.owner] > turn && waits(*other)
                                                            : terms.priority > own.priority && waits(*other);
    if (is_own(*other))
      place = queue_.end(); // the request stays behind earlier requests of its owner
    else if (comes_later && place == queue_.end())
      place = other;
  }
  queue_.insert(place, request);
}

/// Number of prompt positions whose scores are reported to the client. The last position has no score,
/// because the output begins after it.
std::uint32_t scheduler_state::num_scores(const record& r) const {
  const auto& terms = *r.request.terms;
  return terms.request().sampling.prompt_logprobs ? terms.prompt_length() - 1 : 0;
}

/// Credit spent on tokens reported as committed, and on the scores of planned prompt rows.
std::uint64_t scheduler_state::spent(const record& r) const {
  return std::uint64_t{r.num_scored} + (r.known_length - r.request.terms->prompt_length());
}

/// True if the request may commit a token once its prompt is computed. Beam searches report only at their
/// end, so they need no credit before.
bool scheduler_state::may_decide(const record& r) const {
  if (r.beam_width != 0 || r.request.terms->request().stop.max_tokens == 0) return true;
  return r.credit > spent(r) + (num_scores(r) - r.num_scored);
}

/// True if the request has credit for the next thing that it reports.
bool scheduler_state::has_credit(const record& r) const {
  return r.num_scored < num_scores(r) ? r.credit > r.num_scored : may_decide(r);
}

/// The first request in the queue that can run; null while another one is being admitted. A request without
/// credit can only compute its prompt. It is admitted only if no request with credit waits, and not after it
/// gave up a slot.
scheduler_state::record* scheduler_state::next_to_admit() {
  record* next = nullptr;
  for (auto id : queue_) {
    auto& r = requests_.at(id);
    if (r.state == phase::acquiring) return nullptr;
    if (next && has_credit(*next)) continue;
    const bool reads_on = r.num_scored >= num_scores(r); // rows with scores need credit
    if (has_credit(r) || (!next && !r.gave_up_slot && reads_on)) next = &r;
  }
  return next;
}

void scheduler_state::note_stalls(time_point now) {
  for (auto id : running_) {
    auto& r = requests_.at(id);
    const bool has_read = r.decoding || r.planned_kv + 1 >= r.known_length ||
                          (r.num_scored < num_scores(r) && r.planned_kv >= r.num_scored);
    if (has_credit(r) || !has_read || r.num_in_flight > 0 || r.state != phase::running)
      r.stalled_since.reset();
    else if (!r.stalled_since)
      r.stalled_since = now;
  }
}

/// While a request with credit waits for a slot or for blocks, a request that has had no credit for
/// `max_stall` returns to the queue. Among several, the one that has stalled longest returns.
void scheduler_state::give_up_slot(decisions& out, time_point now) {
  note_stalls(now);
  const bool no_slot = running_.size() >= options_.max_running;
  // Only one request at a time gives up its blocks. The next answer of the pool or the end of a round shows
  // whether they suffice.
  const bool no_blocks = ledger_.short_of_blocks() && !blocks_given_up_;
  if (queue_.empty() || (!no_slot && !no_blocks)) return;
  const auto* next = next_to_admit();
  if (!next || !has_credit(*next)) return;
  record* longest = nullptr;
  for (auto id : running_) {
    auto& r = requests_.at(id);
    if (!r.stalled_since || now - *r.stalled_since < max_stall || !ledger_.idle(id)) continue;
    if (!longest || *r.stalled_since < *longest->stalled_since) longest = &r;
  }
  if (!longest) return;
  preempt(*longest, out);
  longest->gave_up_slot = true;
  blocks_given_up_ = true;
  enqueue(longest->request.id());
}

} // namespace paceline::scheduling
