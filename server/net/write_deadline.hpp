#pragma once

#include <chrono>
#include <cstdint>

namespace paceline::server {

/// Whether a client that has output waiting takes it at an honest pace: on the average at least
/// `min_bytes_per_second`, behind which it may fall by at most `patience`. Any progress counts, so a large
/// reply takes as long as it takes; a client that reads a byte a second is told from one that reads. No clock
/// and no socket: times and counts are given.
class write_deadline {
 public:
  using time_point = std::chrono::steady_clock::time_point;

  write_deadline(std::chrono::milliseconds patience, std::uint64_t min_bytes_per_second)
      : patience_(patience), min_rate_(min_bytes_per_second) {}

  /// Output begins to wait. `taken`: bytes that the client has taken up to now, from any fixed origin.
  void begin(time_point now, std::uint64_t taken);
  /// The client has taken `taken` bytes; false once it is too far behind.
  [[nodiscard]] bool observe(time_point now, std::uint64_t taken);
  /// When `observe` will fail if nothing more is taken.
  time_point expiry() const noexcept { return seen_at_ + credit_; }

 private:
  using duration = std::chrono::steady_clock::duration;

  duration patience_;
  std::uint64_t min_rate_;
  time_point seen_at_{};
  std::uint64_t taken_ = 0;
  duration credit_{}; ///< how long the client may take nothing; at most `patience_`
};

} // namespace paceline::server
