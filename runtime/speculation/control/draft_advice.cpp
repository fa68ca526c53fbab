#include "runtime/speculation/control/draft_controller.hpp"

#include <algorithm>

// Whom to ask a round ahead: drafters in workers.

namespace paceline::speculation {

namespace {

/// Share of the time that may go into asking for a token that is not worth it by what is known: texts and
/// times change.
constexpr double look_share = 0.01;
constexpr double first_look_passes = 200; ///< between looks at a drafter whose time is not known yet
/// The times of the first ones say nothing: the drafter reads what it missed. More until a time is known.
constexpr std::uint32_t look_rounds = 3, most_look_rounds = 10;

} // namespace

/// Deeper tokens are thought to be as good as those above them until they were tried.
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
  double best = 0; // tokens per pass over one row that in-line drafts promise
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
  // One token more now and then: what is not drafted is not scored.
  if (since_look_ * look_share > steps_[out.candidate].nanoseconds) {
    since_look_ = 0;
    for (auto& length : out.lengths) length += length > 0 && length < max_length ? 1 : 0;
  }
  return out;
}

/// A token a round, for a few rounds, of the candidate whose turn it is, if looking has not cost too much of
/// late.
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
