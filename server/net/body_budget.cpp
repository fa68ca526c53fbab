#include "server/net/body_budget.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace paceline::server {

body_budget::claim::claim(std::shared_ptr<body_budget> budget, std::string tenant,
                          std::function<void()> give_way)
    : budget_(std::move(budget)), tenant_(std::move(tenant)), give_way_(std::move(give_way)),
      recent_(budget_->now_()) {
  std::lock_guard lock(budget_->mutex_);
  position_ = budget_->claims_.insert(budget_->claims_.end(), this);
}

body_budget::claim::~claim() {
  std::lock_guard lock(budget_->mutex_);
  budget_->charge(*this, 0);
  budget_->claims_.erase(position_);
}

bool body_budget::claim::hold(std::size_t bytes) { return budget_->hold(*this, bytes); }

bool body_budget::claim::complete() {
  std::lock_guard lock(budget_->mutex_);
  stage_ = stage::waiting;
  return !revoked_;
}

bool body_budget::claim::begin_use() {
  std::lock_guard lock(budget_->mutex_);
  stage_ = stage::in_use;
  return !revoked_;
}

std::shared_ptr<body_budget::claim> body_budget::open(std::string tenant, std::function<void()> give_way) {
  return std::make_shared<claim>(shared_from_this(), std::move(tenant), std::move(give_way));
}

std::uint64_t body_budget::num_bytes() const {
  std::lock_guard lock(mutex_);
  return bytes_.total();
}

body_budget::claim* body_budget::slowest(const std::string& tenant, time_point now) const {
  claim* found = nullptr;
  for (auto* one : claims_)
    if (one->stage_ == claim::stage::arriving && one->charged_ > 0 && one->tenant_ == tenant &&
        (found == nullptr || one->recent_.at(now) < found->recent_.at(now)))
      found = one;
  return found;
}

body_budget::claim* body_budget::last_waiting(const std::string& tenant) const {
  const auto found = std::find_if(claims_.rbegin(), claims_.rend(), [&](const claim* one) {
    return one->stage_ == claim::stage::waiting && one->charged_ > 0 && one->tenant_ == tenant;
  });
  return found == claims_.rend() ? nullptr : *found;
}

body_budget::claim& body_budget::victim_of(claim& one, time_point now) const {
  for (const auto& tenant : bytes_.above(one.tenant_)) {
    if (auto* found = slowest(tenant, now)) return *found;
    if (auto* found = last_waiting(tenant)) return *found;
  }
  auto* found = slowest(one.tenant_, now); // finds at least `one`
  return found != nullptr ? *found : one;
}

void body_budget::charge(claim& one, std::uint64_t bytes) {
  bytes_.change(one.tenant_, one.charged_, bytes);
  one.charged_ = bytes;
}

void body_budget::revoke(claim& one) {
  one.revoked_ = true;
  one.stage_ = claim::stage::in_use; // a claim gives way only once
  charge(one, 0);
  num_revoked_.fetch_add(1, std::memory_order_relaxed);
}

bool body_budget::hold(claim& one, std::size_t bytes) {
  const auto now = now_();
  std::vector<std::function<void()>> told;
  {
    std::lock_guard lock(mutex_);
    if (one.revoked_) return false;
    const auto fresh = static_cast<double>(bytes - std::min(bytes, one.held_));
    one.recent_.add(fresh, now);
    one.held_ = bytes;
    charge(one, bytes > free_bytes ? bytes - free_bytes : 0);
    while (bytes_.total() > max_bytes_ && !one.revoked_) {
      auto& victim = victim_of(one, now);
      revoke(victim);
      if (&victim != &one) told.push_back(std::move(victim.give_way_));
    }
  }
  for (const auto& give_way : told) give_way();
  return !one.revoked_;
}

} // namespace paceline::server
