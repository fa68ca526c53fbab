#include "server/net/body_budget.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace paceline::server {

namespace {

/// The most that a body can have to its credit, and what it begins with: one that began is not the slowest
/// before it could be fast, and one that came at once and then stalls is soon slower than one that comes
/// steadily.
constexpr double most_recent_bytes = 256 << 10;

} // namespace

body_budget::claim::claim(std::shared_ptr<body_budget> budget, std::function<void()> give_way)
    : budget_(std::move(budget)), give_way_(std::move(give_way)), recent_bytes_(most_recent_bytes),
      updated_(budget_->now_()) {
  std::lock_guard lock(budget_->mutex_);
  position_ = budget_->claims_.insert(budget_->claims_.end(), this);
}

body_budget::claim::~claim() {
  std::lock_guard lock(budget_->mutex_);
  budget_->num_bytes_ -= charged_;
  budget_->claims_.erase(position_);
}

bool body_budget::claim::hold(std::size_t bytes) { return budget_->hold(*this, bytes); }

bool body_budget::claim::complete() {
  std::lock_guard lock(budget_->mutex_);
  unfinished_ = false;
  return !revoked_;
}

std::shared_ptr<body_budget::claim> body_budget::open(std::function<void()> give_way) {
  return std::make_shared<claim>(shared_from_this(), std::move(give_way));
}

std::uint64_t body_budget::num_bytes() const {
  std::lock_guard lock(mutex_);
  return num_bytes_;
}

double body_budget::pace(const claim& one, time_point now) {
  return one.recent_bytes_ * std::exp2(-std::chrono::duration<double>(now - one.updated_).count());
}

body_budget::claim* body_budget::slowest(time_point now) const {
  claim* found = nullptr;
  for (auto* one : claims_)
    if (one->unfinished_ && one->charged_ > 0 && (found == nullptr || pace(*one, now) < pace(*found, now)))
      found = one;
  return found;
}

void body_budget::revoke(claim& one) {
  one.revoked_ = true;
  one.unfinished_ = false;
  num_bytes_ -= std::exchange(one.charged_, 0);
  num_revoked_.fetch_add(1, std::memory_order_relaxed);
}

bool body_budget::hold(claim& one, std::size_t bytes) {
  const auto now = now_();
  std::vector<std::function<void()>> told;
  {
    std::lock_guard lock(mutex_);
    if (one.revoked_) return false;
    const auto fresh = static_cast<double>(bytes - std::min(bytes, one.held_));
    one.recent_bytes_ = std::min(pace(one, now) + fresh, most_recent_bytes);
    one.updated_ = now;
    one.held_ = bytes;
    const std::uint64_t charge = bytes > free_bytes ? bytes - free_bytes : 0;
    num_bytes_ += charge - one.charged_;
    one.charged_ = charge;
    while (num_bytes_ > max_bytes_ && !one.revoked_) {
      auto* victim = slowest(now); // `one` at the latest
      if (victim == nullptr) victim = &one;
      revoke(*victim);
      if (victim != &one) told.push_back(std::move(victim->give_way_));
    }
  }
  for (const auto& give_way : told) give_way();
  return !one.revoked_;
}

} // namespace paceline::server
