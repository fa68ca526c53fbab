#pragma once

#include <cstddef>
#include <functional>
#include <memory>

namespace paceline::gpu::emulation {

/// Code that runs on a stack of its own and can be suspended and resumed. Created, resumed and destroyed by
/// one thread at a time.
class fibre {
 public:
  /// The first `resume` calls `body`. If `body` has returned, the next `resume` calls it again. `body` must
  /// not throw.
  explicit fibre(std::function<void()> body);
  /// If the body is suspended, does not call the destructors of objects on its stack.
  ~fibre();
  fibre(const fibre&) = delete;
  fibre& operator=(const fibre&) = delete;

  /// Runs the body until it suspends or returns. Must not be called inside a fibre.
  void resume();
  /// Called by the body: `resume` returns. The body continues at the next `resume`.
  void suspend();

  struct impl;

 private:
  std::unique_ptr<impl> impl_;
};

} // namespace paceline::gpu::emulation
