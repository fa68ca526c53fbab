#include "runtime/speculation/control/draft_length.hpp"

#include "runtime/speculation/control/expected_gain.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace paceline::speculation {

namespace {

constexpr double memory = 0.95;     ///< share of the acceptance that is kept at each draft token
constexpr double size_memory = 0.8; ///< share of the size of drafts that is kept at each draft
constexpr std::uint32_t step_up = 2, step_down = 1;

} // namespace

void draft_length::on_verified(std::uint32_t num_levels, std::uint32_t num_accepted, double size) noexcept {
  size_ = size_memory * size_ + (1 - size_memory) * size;
  if (rule_ == length_rule::heuristic)
    now_ = num_accepted == num_levels ? std::min(now_ + step_up, most_)
                                      : std::max(now_ - std::min(now_, step_down), 1U);
  // Tokens after the first rejected one were not decided on.
  const std::uint32_t decided = std::min(num_accepted + 1, num_levels);
  for (std::uint32_t i = 0; i < decided; ++i) {
    kept_ = kept_ * memory + (i < num_accepted ? 1 : 0);
    tried_ = tried_ * memory + 1;
  }
}

std::uint32_t draft_length::next(const pass_cost& cost, double draft_cost, std::uint32_t num_requests,
                                 const rows_of_levels& rows) noexcept {
  if (rule_ != length_rule::optimal) return now_;
  const std::uint32_t together = std::max(num_requests, 1U);
  const double plain = cost.ratio(together);
  std::vector<double> costs(most_ + 1);
  for (std::uint32_t k = 0; k <= most_; ++k) {
    const double largest = k > 0 && rows ? rows(k) : k;
    const auto drafted = std::max(k, static_cast<std::uint32_t>(std::lround(size_ * largest)));
    costs[k] = cost.ratio(together * (1 + drafted)) / plain;
  }
  now_ = optimal_length(acceptance(), draft_cost / plain, costs);
  if (now_ > 0) return now_;
  if (++num_plain_ < rounds_a_look) return 0;
  num_plain_ = 0;
  return 1;
}

std::uint32_t entropy_length::next(double normalised, std::uint32_t most) noexcept {
  const double seen = std::clamp(normalised, 0.0, 1.0);
  const double past = smoothed_ < 0 ? 0.0 : std::min<double>(smoothing_, 0.99);
  smoothed_ = past * smoothed_ + (1.0 - past) * seen;
  const auto least = std::min(least_, most);
  const double length = most - smoothed_ * (static_cast<double>(most) - least);
  return std::clamp(static_cast<std::uint32_t>(std::lround(length)), least, most);
}

double normalised_entropy(std::span<const float> scores) noexcept {
  if (scores.size() < 2) return 0;
  const float best = *std::ranges::max_element(scores);
  if (!std::isfinite(best)) return 0;
  double total = 0, weighted = 0;
  for (const float score : scores) {
    if (!std::isfinite(score)) continue;
    const double shifted = static_cast<double>(score) - best;
    const double weight = std::exp(shifted);
    total += weight;
    weighted += weight * shifted;
  }
  const double entropy = std::log(total) - weighted / total;
  return std::clamp(entropy / std::log(static_cast<double>(scores.size())), 0.0, 1.0);
}

} // namespace paceline::speculation
