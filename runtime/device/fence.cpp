#include "runtime/device/fence.hpp"

#include <condition_variable>
#include <mutex>
#include <vector>

namespace paceline::device {

struct fence::state::impl {
  std::mutex mutex;
  std::condition_variable cv;
  bool passed = false;
  std::optional<error> failure;
  std::vector<std::function<void()>> waiting;
};

fence::state::state() : impl_(std::make_unique<impl>()) {}
fence::state::~state() = default;

void fence::state::pass(std::optional<error> failure) {
  std::vector<std::function<void()>> waiting;
  {
    std::lock_guard lock(impl_->mutex);
    impl_->passed = true;
    impl_->failure = std::move(failure);
    waiting.swap(impl_->waiting);
  }
  impl_->cv.notify_all();
  for (auto& action : waiting) action();
}

bool fence::passed() const noexcept {
  if (!state_) return true;
  std::lock_guard lock(state_->impl_->mutex);
  return state_->impl_->passed;
}

std::optional<error> fence::failure() const {
  if (!state_) return std::nullopt;
  std::lock_guard lock(state_->impl_->mutex);
  return state_->impl_->failure;
}

void fence::when_passed(std::function<void()> action) const {
  if (state_) {
    std::unique_lock lock(state_->impl_->mutex);
    if (!state_->impl_->passed) {
      state_->impl_->waiting.push_back(std::move(action));
      return;
    }
  }
  action();
}

void fence::wait() const {
  if (!state_) return;
  std::unique_lock lock(state_->impl_->mutex);
  state_->impl_->cv.wait(lock, [this] { return state_->impl_->passed; });
}

} // namespace paceline::device
