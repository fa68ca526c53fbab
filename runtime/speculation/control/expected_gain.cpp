#include "runtime/speculation/control/expected_gain.hpp"

#include <algorithm>

namespace paceline::speculation {

double expected_acceptance(std::span<const double> target_probs,
                           std::span<const double> draft_probs) noexcept {
  double sum = 0;
  for (std::size_t i = 0; i < std::min(target_probs.size(), draft_probs.size()); ++i)
    sum += std::min(target_probs[i], draft_probs[i]);
  return sum;
}

double counted_acceptance(std::span<const std::uint32_t> histogram) noexcept {
  std::uint64_t kept = 0;
  std::uint64_t decided = 0;
  for (std::size_t j = 0; j < histogram.size(); ++j) {
    const bool rejected = j + 1 < histogram.size();
    kept += std::uint64_t{histogram[j]} * j;
    decided += std::uint64_t{histogram[j]} * (j + (rejected ? 1 : 0));
  }
  return decided == 0 ? 0.0 : static_cast<double>(kept) / static_cast<double>(decided);
}

double expected_tokens(double acceptance, std::uint32_t length) noexcept {
  // The sum itself, because its closed form (1 - a^(k+1)) / (1 - a) is undefined at 1 and loses digits near
  // it.
  double sum = 1.0;
  for (std::uint32_t i = 0; i < length; ++i) sum = 1.0 + acceptance * sum;
  return sum;
}

double expected_speed_up(double acceptance, std::uint32_t length, double draft_cost,
                         double verify_cost) noexcept {
  return expected_tokens(acceptance, length) / (length * draft_cost + verify_cost);
}

double operations_factor(double acceptance, std::uint32_t length, double draft_operations) noexcept {
  return (length * draft_operations + length + 1.0) / expected_tokens(acceptance, length);
}

namespace {

template <class VerifyCost>
std::uint32_t best_length(double acceptance, double draft_cost, std::uint32_t max_length,
                          VerifyCost verify_cost) {
  std::uint32_t best = 0;
  double best_speed_up = 1.0;
  for (std::uint32_t length = 1; length <= max_length; ++length) {
    const double speed_up = expected_speed_up(acceptance, length, draft_cost, verify_cost(length));
    if (speed_up > best_speed_up) {
      best = length;
      best_speed_up = speed_up;
    }
  }
  return best;
}

} // namespace

std::uint32_t optimal_length(double acceptance, double draft_cost, std::uint32_t max_length) noexcept {
  return best_length(acceptance, draft_cost, max_length, [](std::uint32_t) { return 1.0; });
}

std::uint32_t optimal_length(double acceptance, double draft_cost,
                             std::span<const double> verify_costs) noexcept {
  if (verify_costs.empty()) return 0;
  return best_length(acceptance, draft_cost, static_cast<std::uint32_t>(verify_costs.size()) - 1,
                     [&](std::uint32_t length) { return verify_costs[length]; });
}

double oracle_speed_up(std::span<const std::uint64_t> histogram, double draft_cost,
                       std::span<const double> verify_costs) noexcept {
  // Finds the largest ratio of tokens to time with Dinkelbach's method: a draft is chosen if it is worth its
  // time at the current speed. Each step can only raise the speed, and there are finitely many choices.
  double speed_up = 1;
  for (int step = 0; step < 64 && !verify_costs.empty(); ++step) {
    double tokens = 0, time = 0;
    for (std::size_t right = 0; right < histogram.size(); ++right) {
      std::size_t best = 0;
      const auto cost = [&](std::size_t length) {
        return verify_costs[length] + static_cast<double>(length) * draft_cost;
      };
      const auto worth = [&](std::size_t length) {
        return 1.0 + static_cast<double>(length) - speed_up * cost(length);
      };
      for (std::size_t length = 1; length <= right && length < verify_costs.size(); ++length)
        if (worth(length) > worth(best)) best = length;
      tokens += static_cast<double>(histogram[right]) * (1.0 + static_cast<double>(best));
      time += static_cast<double>(histogram[right]) * cost(best);
    }
    if (time <= 0 || tokens / time <= speed_up) break;
    speed_up = tokens / time;
  }
  return speed_up;
}

double overlap_gain(double verify, double draft, double verify_beside, double draft_beside, double ready,
                    double gap) noexcept {
  const double beside = std::max(verify_beside, draft_beside) + (1 - ready) * draft;
  return beside > 0 ? (verify + draft + gap) / beside : 1;
}

double groups_gain(round_cost all, round_cost first, round_cost last, double gap) noexcept {
  const double beside = std::max({first.verify + last.verify, first.draft + last.draft,
                                  first.verify + first.draft + gap, last.verify + last.draft + gap});
  return beside > 0 ? (all.verify + all.draft + gap) / beside : 1;
}

} // namespace paceline::speculation
