#include "runtime/speculation/control/draft_controller.hpp"

#include <algorithm>

// Advises which worker's drafter to ask for the next round.

namespace paceline::speculation {

namespace {

/// The share of the time that may be spent on tokens that do not pay by the current estimates. Asking for
/// them keeps the estimates current, because texts and times change.
constexpr double look_share = 0.01;
/// Passes between two looks at a drafter whose time is not known yet.
constexpr double first_look_passes = 200;
/// The number of rounds of one look. The times of its first rounds are not typical, because the drafter reads
/// the text that it missed. If no time is known yet, a look takes up to `most_look_rounds` rounds.
constexpr std::uint32_t look_rounds = 3, most_look_rounds = 10;

} // namespace

/// The probability that a chain reaches each level. A level that was never tried gets the estimate of the
/// level above it.
std::vector<double> draft_controller::chain_reach(std::uint32_t candidate, const draft_history& request,
                                                  std::uint32_t length) const {
  const auto& table = request.draws_ ? tables_of_plans_[candidate] : tables_[candidate];
  std::vector<double> reach;
  double probability = 0.5;
  for (std::uint32_t depth = 0; depth < length; ++depth) {
    probability = table.probability(place_of_level(depth), probability);
    reach.push_back((reach.empty() ? 1.0 : reach.back()) * request.bias_[candidate].at_least(probability));
  }
  return reach;
}

draft_controller::advice draft_controller::advise(std::span<const draft_history* const> requests,
                                                  std::uint32_t num_others, std::uint32_t max_length,
                                                  std::span<const std::uint32_t> resting) {
  const double row = cost_.time(1);
  const auto learnt = [](const draft_history* one) { return !one->bias_.empty(); };
  if (first_asked_ == tables_.size() || row == 0 || requests.empty() ||
      !std::ranges::all_of(requests, learnt))
    return {};
  const auto num_requests = static_cast<std::uint32_t>(requests.size());
  double best = 0; // tokens in the time of a pass over one row, as the drafts of in-line candidates promise
  for (const auto* one : requests) best += one->rate_ / cost_.ratio(num_requests);
  best *= 1 + margin;
  const std::uint32_t num_rows = num_others + num_requests;
  advice out;
  for (std::uint32_t c = first_asked_; c < tables_.size(); ++c) {
    if (!steps_[c].seen || std::ranges::find(resting, c) != resting.end()) continue;
    const double step = steps_[c].nanoseconds / row;
    std::vector<std::vector<double>> reach(requests.size());
    for (std::uint32_t length = 1; length <= max_length; ++length) {
      for (std::size_t r = 0; r < requests.size(); ++r) reach[r] = chain_reach(c, *requests[r], length);
      const node_choice joint = choose_nodes(reach, {num_requests, num_rows, length * step}, cost_, 0);
      const double rate = joint.tokens / joint.cost;
      if (rate <= best) continue;
      best = rate;
      out.candidate = c;
      out.lengths.clear();
      for (const auto& kept : joint.keep)
        out.lengths.push_back(static_cast<std::uint32_t>(std::ranges::count(kept, true)));
    }
  }
  if (out.lengths.empty()) return look(requests.size(), row, resting);
  // Sometimes one more token is asked for, because only drafted tokens are scored.
  if (since_look_ * look_share > steps_[out.candidate].nanoseconds) {
    since_look_ = 0;
    for (auto& length : out.lengths) length += length > 0 && length < max_length ? 1 : 0;
  }
  return out;
}

/// Asks the candidate whose turn it is for one token in each of a few rounds, unless recent looks have cost
/// too much.
draft_controller::advice draft_controller::look(std::size_t num_requests, double row,
                                                std::span<const std::uint32_t> resting) {
  if (resting.size() == tables_.size() - first_asked_) return {};
  while (std::ranges::find(resting, next_look_) != resting.end()) {
    look_rounds_ = 0;
    next_look_ = candidate_after(next_look_);
  }
  const std::uint32_t c = next_look_;
  const drafting_time& step = steps_[c];
  if (look_rounds_ == 0) {
    const double cost = step.seen ? look_rounds * step.nanoseconds / look_share : first_look_passes * row;
    const bool first = !step.seen && num_looks_ <= c - first_asked_;
    if (!first && since_look_ < cost) return {};
    ++num_looks_;
    look_rounds_ = step.seen ? look_rounds : most_look_rounds;
  } else {
    --look_rounds_;
    if (step.seen) look_rounds_ = std::min(look_rounds_, look_rounds - 1);
  }
  since_look_ = 0;
  if (look_rounds_ > 0) return {c, std::vector<std::uint32_t>(num_requests, 1)};
  next_look_ = candidate_after(c);
  return {};
}

} // namespace paceline::speculation
