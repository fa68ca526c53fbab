#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace paceline::server {

/// Counts how many bytes of one budget each tenant holds. The owner of the budget decides by these counts who
/// gives way when the budget is used up: tenants with more bytes come first, so that no tenant can lock out
/// another. Not thread-safe: the caller must hold a lock.
class tenant_bytes {
 public:
  /// An item of `tenant` changes its size from `from` to `to` bytes.
  void change(const std::string& tenant, std::uint64_t from, std::uint64_t to) {
    total_ += to - from;
    auto& bytes = bytes_[tenant];
    bytes += to - from;
    if (bytes == 0) bytes_.erase(tenant);
  }
  std::uint64_t total() const noexcept { return total_; }
  std::uint64_t of(const std::string& tenant) const {
    const auto found = bytes_.find(tenant);
    return found == bytes_.end() ? 0 : found->second;
  }
  /// Tenants that hold more than `tenant`, most first.
  std::vector<std::string> above(const std::string& tenant) const {
    std::vector<std::pair<std::uint64_t, const std::string*>> more;
    for (const auto& [other, bytes] : bytes_)
      if (bytes > of(tenant)) more.emplace_back(bytes, &other);
    std::ranges::sort(more, std::greater{}, &std::pair<std::uint64_t, const std::string*>::first);
    std::vector<std::string> out;
    for (const auto& [bytes, other] : more) out.push_back(*other);
    return out;
  }

 private:
  std::uint64_t total_ = 0;
  std::map<std::string, std::uint64_t> bytes_; ///< without zero entries
};

} // namespace paceline::server
