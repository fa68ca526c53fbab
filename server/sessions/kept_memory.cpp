#include "server/sessions/kept_memory.hpp"

#include <algorithm>
#include <utility>

namespace paceline::server {

kept_memory::claim::claim(std::shared_ptr<kept_memory> memory, std::string tenant,
                          std::function<void()> evict)
    : memory_(std::move(memory)), tenant_(std::move(tenant)), evict_(std::move(evict)) {}

kept_memory::claim::~claim() {
  std::lock_guard lock(memory_->mutex_);
  memory_->bytes_.change(tenant_, num_bytes_, 0);
  end_rest();
}

void kept_memory::claim::end_rest() {
  if (!std::exchange(rests_, false)) return;
  const auto own = memory_->resting_.find(tenant_);
  own->second.erase(position_);
  if (own->second.empty()) memory_->resting_.erase(own);
}

void kept_memory::claim::resize(std::size_t bytes) {
  std::lock_guard lock(memory_->mutex_);
  if (evicted_) return;
  memory_->bytes_.change(tenant_, num_bytes_, bytes);
  num_bytes_ = bytes;
}

void kept_memory::claim::rest() {
  std::lock_guard lock(memory_->mutex_);
  if (evicted_) return;
  end_rest();
  rests_ = true;
  auto& own = memory_->resting_[tenant_];
  position_ = own.insert(own.end(), this);
}

bool kept_memory::claim::wake() {
  std::lock_guard lock(memory_->mutex_);
  end_rest();
  return !evicted_;
}

std::shared_ptr<kept_memory::claim> kept_memory::open(std::string tenant, std::function<void()> evict) {
  return std::make_shared<claim>(shared_from_this(), std::move(tenant), std::move(evict));
}

kept_memory::claim* kept_memory::longest_rested() const {
  const auto most =
      std::ranges::max_element(resting_, {}, [&](const auto& own) { return bytes_.of(own.first); });
  return most == resting_.end() ? nullptr : most->second.front();
}

bool kept_memory::make_room() {
  for (;;) {
    std::function<void()> evict;
    {
      std::lock_guard lock(mutex_);
      if (bytes_.total() <= max_bytes_) return true;
      auto* oldest = longest_rested();
      if (oldest == nullptr) return false;
      oldest->end_rest();
      oldest->evicted_ = true;
      bytes_.change(oldest->tenant_, std::exchange(oldest->num_bytes_, 0), 0);
      evict = std::move(oldest->evict_);
    }
    num_evicted_.fetch_add(1, std::memory_order_relaxed);
    evict();
  }
}

std::uint64_t kept_memory::num_bytes() const {
  std::lock_guard lock(mutex_);
  return bytes_.total();
}

} // namespace paceline::server
