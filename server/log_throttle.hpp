#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

namespace paceline::server {

/// Lets one log line through in an interval, with how many events it stands for. Not thread-safe; the time is
/// given.
class log_throttle {
 public:
  using time_point = std::chrono::steady_clock::time_point;

  explicit log_throttle(std::chrono::milliseconds interval) : interval_(interval) {}

  /// An event. Its value: write a line now, and events since the last line, this one included.
  std::optional<std::uint64_t> note(time_point now);

 private:
  std::chrono::milliseconds interval_;
  std::optional<time_point> last_line_;
  std::uint64_t since_line_ = 0;
};

} // namespace paceline::server
