#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>

namespace paceline::server {

/// A measure of how many bytes a transfer has moved recently. When memory is short, body_budget and
/// output_budget use it to choose the transfer that they end. The weight of each byte halves every second.
class recent_bytes {
 public:
  using time_point = std::chrono::steady_clock::time_point;
  /// Initial value, and upper bound. The initial value protects a transfer that has just begun and could not
  /// move a byte yet. Because of the upper bound, the value of a fast transfer that has stalled falls below
  /// the value of a steady transfer after a short time.
  static constexpr double most = 256 << 10;

  explicit recent_bytes(time_point now = {}) : updated_(now) {}

  /// The value at time `now`, in bytes.
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
