#include "runtime/kv/kv_budget.hpp"

#include "runtime/base/check.hpp"

#include <algorithm>
#include <string>

namespace paceline::kv {

std::uint64_t kv_budget::shared_free_bytes() const noexcept {
  std::uint64_t taken = 0;
  for (const auto& a : accounts_) taken += std::max(a.lent_bytes, a.min_bytes);
  return total_bytes_ - taken; // cannot wrap, by the invariant
}

expected<std::size_t> kv_budget::open(std::uint64_t min_bytes) {
  if (min_bytes > shared_free_bytes())
    return error(errc::resource_exhausted, "a minimum of " + std::to_string(min_bytes) +
                                               " bytes does not fit: " + std::to_string(shared_free_bytes()) +
                                               " of " + std::to_string(total_bytes_) +
                                               " bytes are not promised yet");
  accounts_.push_back({min_bytes, 0});
  return accounts_.size() - 1;
}

bool kv_budget::lend(std::size_t account, std::uint64_t bytes) noexcept {
  if (bytes > available_bytes(account)) return false;
  accounts_[account].lent_bytes += bytes;
  return true;
}

void kv_budget::give_back(std::size_t account, std::uint64_t bytes) {
  auto& a = accounts_.at(account);
  PACELINE_CHECK(bytes <= a.lent_bytes,
                 "gave back " + std::to_string(bytes) + " of " + std::to_string(a.lent_bytes));
  a.lent_bytes -= bytes;
}

std::uint64_t kv_budget::available_bytes(std::size_t account) const noexcept {
  const auto& a = accounts_[account];
  const std::uint64_t own = a.min_bytes > a.lent_bytes ? a.min_bytes - a.lent_bytes : 0;
  return own + shared_free_bytes();
}

std::uint64_t kv_budget::reach_bytes(std::size_t account) const noexcept {
  std::uint64_t others = 0;
  for (std::size_t i = 0; i < accounts_.size(); ++i)
    if (i != account) others += accounts_[i].min_bytes;
  return total_bytes_ - others;
}

expected<void> kv_budget::check_invariants() const {
  std::uint64_t left = total_bytes_;
  for (const auto& a : accounts_) {
    const auto taken = std::max(a.lent_bytes, a.min_bytes);
    if (taken > left) return error(errc::internal, "kv budget: lent and promised bytes exceed the total");
    left -= taken;
  }
  return {};
}

} // namespace paceline::kv
