#include "server/net/output_budget.hpp"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>
#include <vector>

namespace paceline::server {

output_budget::claim::claim(std::shared_ptr<output_budget> budget, std::function<void()> give_way)
    : budget_(std::move(budget)), give_way_(std::move(give_way)) {}

output_budget::claim::~claim() {
  std::lock_guard lock(budget_->mutex_);
  budget_->uncount(*this);
}

void output_budget::claim::belong_to(const std::string& tenant) {
  std::lock_guard lock(budget_->mutex_);
  budget_->bytes_.change(tenant_, charged_, 0);
  tenant_ = tenant;
  budget_->bytes_.change(tenant_, 0, charged_);
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
  return bytes_.total();
}

/// The client whose output is revoked. It belongs to the tenant that holds the most bytes, and has read the
/// least. Among clients that have read equally little, it is the one that holds the most.
output_budget::claim& output_budget::victim(time_point now) const {
  const auto rank = [&](const claim* one) {
    return std::tuple(bytes_.of(one->tenant_), -std::floor(one->recent_.at(now)), one->charged_);
  };
  return **std::ranges::max_element(counted_, {}, rank);
}

void output_budget::uncount(claim& one) {
  if (one.charged_ == 0) return;
  counted_.erase(one.position_);
  bytes_.change(one.tenant_, std::exchange(one.charged_, 0), 0);
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
    bytes_.change(one.tenant_, one.charged_, bytes);
    one.charged_ = bytes;
    while (bytes_.total() > max_bytes_) { // at least `one` is counted, so there is a victim
      auto& closed = victim(now);
      uncount(closed);
      closed.revoked_ = true;
      told.push_back(std::move(closed.give_way_));
    }
  }
  for (const auto& give_way : told) give_way();
}

} // namespace paceline::server
