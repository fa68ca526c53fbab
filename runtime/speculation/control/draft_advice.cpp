#include "runtime/speculation/control/draft_controller.hpp"

#include <algorithm>

// Advises which worker's drafter to ask for the next round.

namespace paceline::speculation {

namespace {

/// Passes between two looks at a drafter whose time is not known yet.
constexpr double first_look_passes = 200;
/// The number of rounds of one look. The times of its first rounds are not typical, because the drafter reads
/// the text that it missed. If no time is known yet, a look takes up to `most_look_rounds` rounds.
constexpr std::uint32_t look_rounds = 3, most_look_rounds = 10;

bool contains(std::span<const std::uint32_t> candidates, std::uint32_t one) {
  return std::ranges::find(candidates, one) != candidates.end();
}

} // namespace

/// The probability that a chain of a candidate reaches each level.
std::vector<double> draft_controller::chain_reach(std::uint32_t candidate, const draft_history& request,
                                                  std::uint32_t length) const {
  const bool is_drawn = request.weighs_probs_ && draws_[candidate];
  return reach_of_levels(is_drawn ? tables_of_plans_[candidate] : tables_[candidate],
                         request.bias_[candidate], length);
}

std::vector<draft_controller::advice> draft_controller::advise(std::span<draft_history* const> requests,
                                                               std::uint32_t num_others,
                                                               std::uint32_t max_length,
                                                               std::span<const std::uint32_t> resting) {
  const auto learnt = [](const draft_history* one) { return !one->bias_.empty(); };
  if (first_asked_ == tables_.size() || cost_.time(1) == 0 || requests.empty() ||
      !std::ranges::all_of(requests, learnt))
    return {};
  auto best = best_worker(requests, num_others, max_length, resting);
  if (best.lengths.empty()) {
    const auto looked = worker_to_look_at(requests, resting);
    return looked ? std::vector<advice>(requests.size(), {*looked, 1}) : std::vector<advice>{};
  }
  last_best_ = best.candidate;
  // Sometimes one more token is asked for, because only drafted tokens are scored.
  if (since_look_ * look_share > price_of_trial(best.candidate, requests)) {
    since_look_ = 0;
    note_trial(best.candidate, requests);
    for (auto& length : best.lengths) length += length > 0 && length < max_length ? 1 : 0;
  }
  std::vector<advice> out;
  for (const auto length : best.lengths) out.push_back({best.candidate, length});
  try_another(requests, best.candidate, resting, out);
  return out;
}

/// The worker whose drafts promise more than those of in-line candidates and than plain decoding. The one
/// that was best before stays so unless another one is better by `margin`, because a request that changes its
/// worker has its text read again.
draft_controller::batch_advice draft_controller::best_worker(std::span<draft_history* const> requests,
                                                             std::uint32_t num_others,
                                                             std::uint32_t max_length,
                                                             std::span<const std::uint32_t> resting) {
  const auto num_requests = static_cast<std::uint32_t>(requests.size());
  // Tokens in the time of a pass over one row, as the drafts of in-line candidates promise, and the margin.
  double least = 0;
  for (const auto* one : requests) least += one->rate_ / cost_.ratio(num_requests) * (1 + margin);
  double best = 0;
  const std::uint32_t num_rows = num_others + num_requests;
  batch_advice out;
  for (std::uint32_t c = first_asked_; c < tables_.size(); ++c) {
    if (!steps_[c].seen || contains(resting, c)) continue;
    const double step = steps_[c].nanoseconds / cost_.time(1);
    std::vector<std::vector<double>> reach(requests.size());
    for (std::uint32_t length = 1; length <= max_length; ++length) {
      for (std::size_t r = 0; r < requests.size(); ++r) reach[r] = chain_reach(c, *requests[r], length);
      const node_choice joint = choose_nodes(reach, {num_requests, num_rows, length * step}, cost_, 0);
      const double rate = joint.tokens / joint.cost, preferred = rate * (c == last_best_ ? 1 + margin : 1);
      if (rate <= least || preferred <= best) continue;
      best = preferred;
      out.candidate = c;
      out.lengths.clear();
      for (const auto& kept : joint.keep)
        out.lengths.push_back(static_cast<std::uint32_t>(std::ranges::count(kept, true)));
    }
  }
  return out;
}

/// Nanoseconds that a draft of one token for each of these requests costs: its drafting step and, where its
/// tokens have to be verified to be scored, its rows and the gain of the in-line drafts in their place.
double draft_controller::price_of_trial(std::uint32_t candidate,
                                        std::span<draft_history* const> requests) const {
  double price = steps_[candidate].nanoseconds;
  const auto num_requests = static_cast<std::uint32_t>(requests.size());
  const auto weighs = [](const draft_history* one) { return one->weighs_probs_; };
  if (std::ranges::none_of(requests, weighs)) return price;
  double gain = 0; // of in-line drafts, in passes
  for (const auto* one : requests) gain += std::max(0.0, one->rate_ - 1) / num_requests;
  return price + cost_.time(2 * num_requests) - cost_.time(num_requests) + gain * cost_.time(num_requests);
}

void draft_controller::note_trial(std::uint32_t candidate, std::span<draft_history* const> requests) {
  if (std::ranges::any_of(requests, [](const auto* one) { return one->weighs_probs_; }))
    num_to_verify_[candidate] = std::min(num_to_verify_[candidate] + 1, most_look_rounds);
}

/// Passes the turn on to a worker that does not rest and is not `best`; false: there is none.
bool draft_controller::pass_turn(std::optional<std::uint32_t> best, std::span<const std::uint32_t> resting) {
  for (auto n = first_asked_; n < tables_.size(); ++n) {
    if (next_look_ != best && !contains(resting, next_look_)) return true;
    look_rounds_ = 0;
    next_look_ = candidate_after(next_look_);
  }
  return false;
}

/// If no worker is worth its time: the candidate whose turn it is, for one token of each request in each of a
/// few rounds, unless recent looks have cost too much.
std::optional<std::uint32_t> draft_controller::worker_to_look_at(std::span<draft_history* const> requests,
                                                                 std::span<const std::uint32_t> resting) {
  if (!pass_turn(std::nullopt, resting)) return std::nullopt;
  const std::uint32_t c = next_look_;
  drafting_time& step = steps_[c];
  if (look_rounds_ == 0) {
    const double cost = step.seen ? look_rounds * price_of_trial(c, requests) / look_share
                                  : first_look_passes * cost_.time(1);
    const bool first = !step.seen && num_looks_ <= c - first_asked_;
    if (!first && since_look_ < cost) return std::nullopt;
    ++num_looks_;
    look_rounds_ = step.seen ? look_rounds : most_look_rounds;
    step.least_catching_up = 0;
  } else {
    --look_rounds_;
    if (step.seen && !step.is_bound) look_rounds_ = std::min(look_rounds_, look_rounds - 1);
    if (look_rounds_ == 0) step.end_look();
  }
  since_look_ = 0;
  if (look_rounds_ > 0) {
    note_trial(c, requests);
    return c;
  }
  next_look_ = candidate_after(c);
  return std::nullopt;
}

/// While worker `best` is worth its time, another one is tried with a request that is new, because a request
/// keeps its worker for a while. The trial may cost `look_share` of the time: drafts of one token in place of
/// the best ones.
void draft_controller::try_another(std::span<draft_history* const> requests, std::uint32_t best,
                                   std::span<const std::uint32_t> resting, std::vector<advice>& out) {
  for (std::size_t r = 0; r < requests.size(); ++r) {
    draft_history& one = *requests[r];
    if (one.num_trials_ == 0 && one.account_.num_rounds == 1) {
      if (!pass_turn(best, resting)) continue;
      const std::uint32_t c = next_look_;
      drafting_time& step = steps_[c];
      // A round with a draft of one token is no loss larger than the round's whole time.
      const double price = most_look_rounds * (price_of_trial(c, {&requests[r], 1}) + cost_.time(1));
      if (since_trial_ * look_share < price) continue;
      since_trial_ = 0;
      step.least_catching_up = 0;
      one.tried_ = c;
      one.num_trials_ = most_look_rounds;
      next_look_ = candidate_after(c), look_rounds_ = 0;
    }
    if (contains(resting, one.tried_)) one.num_trials_ = 0;
    if (one.num_trials_ == 0) continue;
    if (--one.num_trials_ == 0) steps_[one.tried_].end_look();
    note_trial(one.tried_, {&requests[r], 1});
    out[r] = {one.tried_, 1};
  }
}

} // namespace paceline::speculation
