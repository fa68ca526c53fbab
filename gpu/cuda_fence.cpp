#include "gpu/cuda_fence.hpp"

#include <utility>

namespace paceline::gpu {

std::shared_ptr<cuda_fence> cuda_fence::of(const device::fence& fence, const device_context& on) {
  auto found = std::dynamic_pointer_cast<cuda_fence>(fence.shared());
  return found && found->on_ == &on ? found : nullptr;
}

void cuda_fence::issue(std::shared_ptr<event> end) {
  std::vector<std::function<void()>> waiting;
  {
    std::lock_guard lock(mutex_);
    issued_ = true;
    end_ = std::move(end);
    waiting.swap(waiting_);
  }
  for (auto& action : waiting) action();
}

void cuda_fence::when_issued(std::function<void()> action) {
  {
    std::lock_guard lock(mutex_);
    if (!issued_) {
      waiting_.push_back(std::move(action));
      return;
    }
  }
  action();
}

void cuda_fence::hold(command_queue& queue) const {
  std::shared_ptr<event> end;
  {
    std::lock_guard lock(mutex_);
    end = end_;
  }
  if (end) queue.wait_for(*end);
}

void cuda_fence::forget_end() {
  std::shared_ptr<event> end;
  std::vector<std::function<void()>> never;
  {
    std::lock_guard lock(mutex_);
    end.swap(end_);
    never.swap(waiting_);
  }
}

} // namespace paceline::gpu
