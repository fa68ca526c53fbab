#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

namespace paceline::server {

/// Allows one log line in each interval, and counts the events since the last line. Not thread-safe. The
/// caller passes the time.
class log_throttle {
 public:
  using time_point = std::chrono::steady_clock::time_point;

  explicit log_throttle(std::chrono::milliseconds interval) : interval_(interval) {}

  /// Records an event. Returns a value if a line should be written now: the number of events since the last
  /// line, this one included.
  std::optional<std::uint64_t> note(time_point now);

 private:
  std::chrono::milliseconds interval_;
  std::optional<time_point> last_line_;
  std::uint64_t since_line_ = 0;
};

} // namespace paceline::server
