#pragma once

#include <chrono>
#include <cstdint>

namespace paceline::server {

/// Decides whether a client reads its waiting output fast enough: on average at least `min_bytes_per_second`,
/// and never more than `patience` behind that rate. There is no time limit for a whole reply, so a large
/// reply may take long, but a client that reads one byte a second is still detected. Uses no clock and no
/// socket: times and counts are arguments.
class write_deadline {
 public:
  using time_point = std::chrono::steady_clock::time_point;

  write_deadline(std::chrono::milliseconds patience, std::uint64_t min_bytes_per_second)
      : patience_(patience), min_rate_(min_bytes_per_second) {}

  /// Output begins to wait. `taken`: bytes that the client has read so far, counted from a fixed origin.
  void begin(time_point now, std::uint64_t taken);
  /// The client has read `taken` bytes in total, from the same origin. False once it is too far behind.
  [[nodiscard]] bool observe(time_point now, std::uint64_t taken);
  /// When `observe` will fail if the client reads nothing more.
  time_point expiry() const noexcept { return seen_at_ + credit_; }

 private:
  using duration = std::chrono::steady_clock::duration;

  duration patience_;
  std::uint64_t min_rate_;
  time_point seen_at_{};
  std::uint64_t taken_ = 0;
  duration credit_{}; ///< how long the client may read nothing; at most `patience_`
};

} // namespace paceline::server
