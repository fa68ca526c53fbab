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

/// A Prometheus histogram; any thread may add observations. The bounds are ascending upper limits and must
/// outlive the histogram. The last bucket (+Inf) is implicit.
class histogram {
 public:
  explicit histogram(std::span<const double> bounds);

  void observe(double value, std::uint64_t times = 1) noexcept;

  std::span<const double> bounds() const noexcept { return bounds_; }
  /// Number of observations at or below each bound, then the number of all observations.
  std::vector<std::uint64_t> cumulative() const;
  double sum() const noexcept { return sum_.load(std::memory_order_relaxed); }

 private:
  std::span<const double> bounds_;
  std::vector<std::atomic<std::uint64_t>> counts_;
  std::atomic<double> sum_{0};
};

/// Bucket bounds for times in seconds, and (`token_count_bounds`) for numbers of tokens. `token_gap_bounds`
/// begin below a millisecond, for small models on fast machines.
std::span<const double> latency_bounds() noexcept;
std::span<const double> first_token_bounds() noexcept;
std::span<const double> token_gap_bounds() noexcept;
std::span<const double> delay_bounds() noexcept;
std::span<const double> token_count_bounds() noexcept;

} // namespace paceline::server
