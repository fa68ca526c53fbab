#include "server/net/output_budget.hpp"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace paceline::server {

output_budget::claim::claim(std::shared_ptr<output_budget> budget, std::function<void()> give_way)
    : budget_(std::move(budget)), give_way_(std::move(give_way)) {}

output_budget::claim::~claim() {
  std::lock_guard lock(budget_->mutex_);
  budget_->uncount(*this);
}

void output_budget::claim::hold(std::size_t bytes, std::size_t taken) {
  const std::uint64_t charge = bytes > free_bytes ? bytes : 0;
  const bool was_counted = std::exchange(is_counted_, charge > 0);
  if (charge > 0 || was_counted) budget_->charge(*this, charge, taken);
}

std::unique_ptr<output_budget::claim> output_budget::open(std::function<void()> give_way) {
  return std::make_unique<claim>(shared_from_this(), std::move(give_way));
}

std::uint64_t output_budget::num_bytes() const {
  std::lock_guard lock(mutex_);
  return num_bytes_;
}

/// Of two that took nothing, the one that holds more.
output_budget::claim* output_budget::slowest(time_point now) const {
  const auto rank = [&](const claim& one) {
    return std::pair(std::floor(one.recent_.at(now)), max_bytes_ - std::min(one.charged_, max_bytes_));
  };
  const auto found = std::min_element(counted_.begin(), counted_.end(),
                                      [&](const auto* a, const auto* b) { return rank(*a) < rank(*b); });
  return found == counted_.end() ? nullptr : *found;
}

void output_budget::uncount(claim& one) {
  if (one.charged_ == 0) return;
  counted_.erase(one.position_);
  num_bytes_ -= std::exchange(one.charged_, 0);
}

void output_budget::charge(claim& one, std::uint64_t bytes, std::size_t taken) {
  const auto now = now_();
  std::vector<std::function<void()>> told;
  {
    std::lock_guard lock(mutex_);
    if (one.revoked_) return;
    if (bytes == 0) return uncount(one);
    if (one.charged_ == 0) {
      one.position_ = counted_.insert(counted_.end(), &one);
      one.recent_ = recent_bytes(now);
    } else {
      one.recent_.add(static_cast<double>(taken), now);
    }
    num_bytes_ += bytes - one.charged_;
    one.charged_ = bytes;
    while (num_bytes_ > max_bytes_) {
      auto& victim = *slowest(now); // `one` at the latest
      uncount(victim);
      victim.revoked_ = true;
      told.push_back(std::move(victim.give_way_));
    }
  }
  for (const auto& give_way : told) give_way();
}

} // namespace paceline::server
