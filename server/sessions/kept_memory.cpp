#include "server/sessions/kept_memory.hpp"

#include <utility>

namespace paceline::server {

kept_memory::claim::claim(std::shared_ptr<kept_memory> memory, std::function<void()> evict)
    : memory_(std::move(memory)), evict_(std::move(evict)) {}

kept_memory::claim::~claim() {
  std::lock_guard lock(memory_->mutex_);
  memory_->num_bytes_ -= num_bytes_;
  if (rests_) memory_->resting_.erase(position_);
}

void kept_memory::claim::resize(std::size_t bytes) {
  std::lock_guard lock(memory_->mutex_);
  if (evicted_) return;
  memory_->num_bytes_ = memory_->num_bytes_ - num_bytes_ + bytes;
  num_bytes_ = bytes;
}

void kept_memory::claim::rest() {
  std::lock_guard lock(memory_->mutex_);
  if (evicted_) return;
  if (std::exchange(rests_, true)) memory_->resting_.erase(position_);
  position_ = memory_->resting_.insert(memory_->resting_.end(), this);
}

bool kept_memory::claim::wake() {
  std::lock_guard lock(memory_->mutex_);
  if (std::exchange(rests_, false)) memory_->resting_.erase(position_);
  return !evicted_;
}

std::shared_ptr<kept_memory::claim> kept_memory::open(std::function<void()> evict) {
  return std::make_shared<claim>(shared_from_this(), std::move(evict));
}

bool kept_memory::make_room() {
  for (;;) {
    std::function<void()> evict;
    {
      std::lock_guard lock(mutex_);
      if (num_bytes_ <= max_bytes_) return true;
      if (resting_.empty()) return false;
      auto& oldest = *resting_.front();
      resting_.pop_front();
      oldest.rests_ = false;
      oldest.evicted_ = true;
      num_bytes_ -= std::exchange(oldest.num_bytes_, 0);
      evict = std::move(oldest.evict_);
    }
    num_evicted_.fetch_add(1, std::memory_order_relaxed);
    evict();
  }
}

std::uint64_t kept_memory::num_bytes() const {
  std::lock_guard lock(mutex_);
  return num_bytes_;
}

} // namespace paceline::server
