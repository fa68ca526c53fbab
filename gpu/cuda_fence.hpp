#pragma once

#include "gpu/owners.hpp"
#include "runtime/device/fence.hpp"

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace paceline::gpu {

/// The fence of a program on a GPU. It has two stages: the program is *issued* when its host code has
/// returned and all its work was submitted to the device; it has *passed* when the device has completed this
/// work. A stream of the same device that waits for this fence goes on as soon as the program is issued,
/// because the wait for its work is enqueued on the device. Thread-safe.
class cuda_fence final : public device::fence::state {
 public:
  explicit cuda_fence(const device_context& on) : on_(&on) {}

  /// The state of `fence` if it belongs to a stream of `on`; else null.
  static std::shared_ptr<cuda_fence> of(const device::fence& fence, const device_context& on);

  /// Marks the program as issued without a failure; `end` was recorded after its work.
  void issue(std::shared_ptr<event> end);
  /// Calls `action` when the program is issued, on the thread that issues it, or at once if it has been
  /// issued already. Never calls it if the program fails before that.
  void when_issued(std::function<void()> action);
  /// Makes later work in `queue` wait, on the device, for the end of the program, which must have been
  /// issued.
  void hold(command_queue& queue) const;
  /// Drops the event. Called after the device has completed the work, when nothing has to wait for it any
  /// more, and before the fence passes, because the fence may outlive the device.
  void forget_end();

 private:
  const device_context* const on_; ///< used as an identity; may be destroyed once the fence has passed
  mutable std::mutex mutex_;
  bool issued_ = false;
  std::shared_ptr<event> end_;
  std::vector<std::function<void()>> waiting_;
};

} // namespace paceline::gpu
