#include "server/metrics/histogram.hpp"

#include <algorithm>

namespace paceline::server {

histogram::histogram(std::span<const double> bounds) : bounds_(bounds), counts_(bounds.size() + 1) {}

void histogram::observe(double value, std::uint64_t times) noexcept {
  const auto bucket =
      static_cast<std::size_t>(std::lower_bound(bounds_.begin(), bounds_.end(), value) - bounds_.begin());
  counts_[bucket].fetch_add(times, std::memory_order_relaxed);
  sum_.fetch_add(value * static_cast<double>(times), std::memory_order_relaxed);
}

std::vector<std::uint64_t> histogram::cumulative() const {
  std::vector<std::uint64_t> totals;
  std::uint64_t total = 0;
  for (const auto& count : counts_) totals.push_back(total += count.load(std::memory_order_relaxed));
  return totals;
}

std::span<const double> latency_bounds() noexcept {
  static constexpr double bounds[] = {0.3, 0.5, 0.8, 1,  1.5, 2,   2.5, 5,   10,   15,  20,
                                      30,  40,  50,  60, 120, 240, 480, 960, 1920, 7680};
  return bounds;
}

std::span<const double> first_token_bounds() noexcept {
  static constexpr double bounds[] = {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75,
                                      1,     2.5,   5,    7.5,  10,   20,   40,   80,  160,  640, 2560};
  return bounds;
}

std::span<const double> token_gap_bounds() noexcept {
  static constexpr double bounds[] = {0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.075,
                                      0.1,    0.15,  0.2,   0.3,   0.4,  0.5,   0.75, 1,
                                      2.5,    5,     7.5,   10,    20,   40,    80};
  return bounds;
}

std::span<const double> delay_bounds() noexcept {
  static constexpr double bounds[] = {0.00005, 0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.003, 0.004, 0.005,
                                      0.0075,  0.01,   0.02,   0.05,   0.1,   0.5,   1,     5};
  return bounds;
}

std::span<const double> token_count_bounds() noexcept {
  static constexpr double bounds[] = {1,   2,    5,    10,   20,    50,    100,   200,
                                      500, 1000, 2000, 5000, 10000, 20000, 50000, 100000};
  return bounds;
}

} // namespace paceline::server
