#pragma once

#include <cstddef>
#include <functional>
#include <memory>

namespace paceline::gpu::emulation {

/// A stack on which code runs until it returns control. Created, resumed and destroyed by one thread at a
/// time.
class fibre {
 public:
  /// `body` starts at the first `resume`. It must not throw, and must not return while it may be resumed.
  explicit fibre(std::function<void()> body);
  /// Objects on the stack are dropped without being destroyed.
  ~fibre();
  fibre(const fibre&) = delete;
  fibre& operator=(const fibre&) = delete;

  /// Runs the body until it suspends. Must not be called inside a fibre.
  void resume();
  /// Called by the body: returns from `resume`, and continues at the next one.
  void suspend();

 private:
  struct impl;
  std::unique_ptr<impl> impl_;
};

} // namespace paceline::gpu::emulation
