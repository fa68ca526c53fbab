#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>

namespace paceline::server {

/// How many bytes have moved recently, to choose who gives way. The weight of each byte halves every second.
class recent_bytes {
 public:
  using time_point = std::chrono::steady_clock::time_point;
  /// Maximum and initial value. A transfer that has just begun is not the slowest before it could move a
  /// byte. A transfer that moved much at once and then stalls soon counts as slower than a steady one.
  static constexpr double most = 256 << 10;

  explicit recent_bytes(time_point now = {}) : updated_(now) {}

  double at(time_point now) const {
    return bytes_ * std::exp2(-std::chrono::duration<double>(now - updated_).count());
  }
  void add(double bytes, time_point now) {
    bytes_ = std::min(at(now) + bytes, most);
    updated_ = now;
  }

 private:
  double bytes_ = most;
  time_point updated_;
};

} // namespace paceline::server
