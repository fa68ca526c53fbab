#pragma once

#include "runtime/base/clock.hpp"

#include <deque>

namespace paceline::actors {

/// How often one actor may be restarted: at most `max_restarts` within `window`.
class restart_budget {
 public:
  restart_budget(std::uint32_t max_restarts, std::chrono::nanoseconds window)
      : max_restarts_(max_restarts), window_(window) {}

  /// If the budget allows a restart at `now`, counts it and returns true.
  bool spend(time_point now) {
    while (!restarts_.empty() && now - restarts_.front() > window_) restarts_.pop_front();
    if (restarts_.size() >= max_restarts_) return false;
    restarts_.push_back(now);
    return true;
  }

 private:
  std::uint32_t max_restarts_;
  std::chrono::nanoseconds window_;
  std::deque<time_point> restarts_;
};

} // namespace paceline::actors
