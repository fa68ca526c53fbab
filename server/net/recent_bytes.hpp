#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>

namespace paceline::server {

/// A measure of how many bytes a transfer has moved recently; budgets choose by it which transfer is ended.
/// The weight of each byte halves every second.
class recent_bytes {
 public:
  using time_point = std::chrono::steady_clock::time_point;
  /// Maximum and initial value. As initial value it protects a transfer that has just begun and could not
  /// move a byte yet. As maximum it makes a transfer that moved much and then stalls soon count as slower
  /// than a steady one.
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
