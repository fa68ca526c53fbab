#pragma once

#include "gpu/owners.hpp"
#include "runtime/device/fence.hpp"

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace paceline::gpu {

/// The fence of a program on a GPU, which it reaches in two steps: the program is *issued* when its host code
/// has returned and the device has been told all its work; it has *passed* when the device has done it.
/// Streams of the same device go on at the first, and leave the waiting to the device. Thread-safe.
class cuda_fence final : public device::fence::state {
 public:
  explicit cuda_fence(const device_context& on) : on_(&on) {}

  /// The one of `fence`, if it is of a stream of `on`; else null.
  static std::shared_ptr<cuda_fence> of(const device::fence& fence, const device_context& on);

  /// The program has been issued, without a failure; `end` is recorded behind its work.
  void issue(std::shared_ptr<event> end);
  /// Calls `action` once the program has been issued; never, if it fails before. As `fence::when_passed`.
  void when_issued(std::function<void()> action);
  /// What comes next in `queue` waits, on the device, for the end of the program. It has been issued.
  void hold(command_queue& queue) const;
  /// The device has come to the end: there is nothing to wait for any more. Called before the fence passes,
  /// which may outlive the device.
  void forget_end();

 private:
  const device_context* const on_; ///< an identity; may be gone once the fence has passed
  mutable std::mutex mutex_;
  bool issued_ = false;
  std::shared_ptr<event> end_;
  std::vector<std::function<void()>> waiting_;
};

} // namespace paceline::gpu
