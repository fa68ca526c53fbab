#pragma once

#include <chrono>

namespace paceline {

using time_point = std::chrono::steady_clock::time_point;

/// When something began and ended.
struct time_span {
  time_point begin;
  time_point end;
};

/// Source of time. The engine uses the steady clock; tests and simulations use one that they advance
/// themselves. Thread-safe.
class clock {
 public:
  virtual ~clock() = default;
  virtual time_point now() const noexcept = 0;
};

class steady_clock final : public clock {
 public:
  time_point now() const noexcept override { return std::chrono::steady_clock::now(); }
};

} // namespace paceline
