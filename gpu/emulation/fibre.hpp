#pragma once

#include <cstddef>
#include <functional>
#include <memory>

namespace paceline::gpu::emulation {

/// A stack that code runs on until it hands back control. Made, resumed and destroyed by one thread at a
/// time.
class fibre {
 public:
  /// `body` begins at the first `resume`; it must not throw, and must not return while it may be resumed.
  explicit fibre(std::function<void()> body);
  /// What lies on the stack is dropped without being destroyed.
  ~fibre();
  fibre(const fibre&) = delete;
  fibre& operator=(const fibre&) = delete;

  /// Runs the body until it suspends. Not called inside a fibre.
  void resume();
  /// Called by the body: returns from `resume`; continues at the next one.
  void suspend();

 private:
  struct impl;
  std::unique_ptr<impl> impl_;
};

} // namespace paceline::gpu::emulation
