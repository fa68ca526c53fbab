#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::server {

/// A Prometheus histogram: observations may come from any thread. Bounds are ascending upper limits; the last
/// bucket
/// (+Inf) is implied. They must outlive the histogram.
class histogram {
 public:
  explicit histogram(std::span<const double> bounds);

  void observe(double value, std::uint64_t times = 1) noexcept;

  std::span<const double> bounds() const noexcept { return bounds_; }
  /// Observations at or below each bound, then all: what the exposition prints.
  std::vector<std::uint64_t> cumulative() const;
  double sum() const noexcept { return sum_.load(std::memory_order_relaxed); }

 private:
  std::span<const double> bounds_;
  std::vector<std::atomic<std::uint64_t>> counts_;
  std::atomic<double> sum_{0};
};

/// Bucket families. ITL begins below a millisecond: small models on fast machines live there.
std::span<const double> latency_bounds() noexcept;
std::span<const double> first_token_bounds() noexcept;
std::span<const double> token_gap_bounds() noexcept;
std::span<const double> delay_bounds() noexcept;
std::span<const double> token_count_bounds() noexcept;

} // namespace paceline::server
