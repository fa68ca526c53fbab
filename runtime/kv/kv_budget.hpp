#pragma once

#include "runtime/base/expected.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace paceline::kv {

/// The bytes of one memory space that its KV pools share. Each account has a minimum that no other account
/// can take; the rest is first come, first served. Counts bytes only; owns no memory.
///
/// Invariant: the sum over accounts of max(lent, minimum) never exceeds the total.
class kv_budget {
 public:
  explicit kv_budget(std::uint64_t total_bytes) : total_bytes_(total_bytes) {}

  /// Index of a new account. Error: `errc::resource_exhausted` if its minimum does not fit beside the
  /// minimums and loans of the others.
  expected<std::size_t> open(std::uint64_t min_bytes);

  /// Lends `bytes` to the account; if they are not available, returns false and changes nothing.
  bool lend(std::size_t account, std::uint64_t bytes) noexcept;
  /// Takes back `bytes` that were lent.
  void give_back(std::size_t account, std::uint64_t bytes);

  std::uint64_t lent_bytes(std::size_t account) const { return accounts_.at(account).lent_bytes; }
  std::uint64_t min_bytes(std::size_t account) const { return accounts_.at(account).min_bytes; }
  /// Bytes the account could borrow now.
  std::uint64_t available_bytes(std::size_t account) const noexcept;
  /// Bytes that the account could hold if every other account shrank to its minimum.
  std::uint64_t reach_bytes(std::size_t account) const noexcept;

  expected<void> check_invariants() const;

 private:
  struct account_state {
    std::uint64_t min_bytes = 0;
    std::uint64_t lent_bytes = 0;
  };

  std::uint64_t shared_free_bytes() const noexcept;

  std::uint64_t total_bytes_;
  std::vector<account_state> accounts_;
};

} // namespace paceline::kv
