#pragma once

#include <cstddef>
#include <functional>
#include <memory>

namespace paceline::gpu::emulation {

/// Code that runs on a stack of its own and can be suspended and resumed. Created, resumed and destroyed by
/// one thread at a time.
class fibre {
 public:
  /// `body` starts at the first `resume`. It must not throw, and must not return while it may be resumed.
  explicit fibre(std::function<void()> body);
  /// Does not call the destructors of objects on the fibre's stack.
  ~fibre();
  fibre(const fibre&) = delete;
  fibre& operator=(const fibre&) = delete;

  /// Runs the body until it suspends. Must not be called inside a fibre.
  void resume();
  /// Called by the body: `resume` returns. The body continues at the next `resume`.
  void suspend();

 private:
  struct impl;
  std::unique_ptr<impl> impl_;
};

} // namespace paceline::gpu::emulation
