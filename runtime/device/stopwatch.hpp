#pragma once

#include "runtime/base/clock.hpp"
#include "runtime/device/ops.hpp"

#include <chrono>

namespace paceline::device {

/// Measures how long a program computes, from construction on, without the time in which it pauses for
/// another tenant. Used inside one program; `ops` and `time` must outlive it.
class stopwatch {
 public:
  stopwatch(const ops& ops, const clock& time)
      : ops_(&ops), time_(&time), begin_(time.now()), aside_(ops.time_aside()) {}

  std::chrono::nanoseconds elapsed() const { return time_->now() - begin_ - (ops_->time_aside() - aside_); }

 private:
  const ops* ops_;
  const clock* time_;
  time_point begin_;
  std::chrono::nanoseconds aside_;
};

} // namespace paceline::device
