#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>

namespace paceline::server {

/// How fast bytes have moved of late, for choosing who gives way: each counts half as much a second later.
class recent_bytes {
 public:
  using time_point = std::chrono::steady_clock::time_point;
  /// The most that one can have to its credit, and what it begins with: one that has just begun is not the
  /// slowest before it could move any, and one that moved all at once and then stalls is soon slower than one
  /// that is steady.
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
