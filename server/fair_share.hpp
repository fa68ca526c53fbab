#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>

namespace paceline::server {

/// Places shared by several API keys. Half of the places are divided equally between the keys and reserved
/// for them (at least one for each key, if there are enough); the rest is first come, first served. So
/// neither one key nor several together can lock out another key, and one key alone can get more than half of
/// the places. Exception: a request that needs more than its key's share may take places that are reserved
/// for other keys; see the second `take`. With one key or none, no place is reserved.
///
/// Not thread-safe: the caller must hold a lock.
class fair_share {
 public:
  explicit fair_share(std::size_t num_places = 0) : num_places_(num_places) {}

  /// Changes the number of places. Places in use stay in use.
  void resize(std::size_t num_places) noexcept { num_places_ = num_places; }

  /// Takes a place for one of `num_tenants` tenants; false if none is left for it.
  [[nodiscard]] bool take(const std::string& tenant, std::size_t num_tenants) {
    auto& taken = taken_[tenant];
    if (!has_place(taken, num_tenants)) {
      if (taken == 0) taken_.erase(tenant);
      return false;
    }
    ++taken;
    ++num_taken_;
    return true;
  }
  /// Takes `count` places or none. A request may need more places than the tenant can ever get beside the
  /// places reserved for other tenants. Such a request would never run, so it may also take reserved places,
  /// if the tenant holds no place and enough places are free.
  [[nodiscard]] bool take(const std::string& tenant, std::size_t count, std::size_t num_tenants) {
    const auto own = reserved(num_tenants);
    const bool is_beyond_share = num_tenants > 1 && count > num_places_ - own * (num_tenants - 1);
    if (is_beyond_share && !taken_.contains(tenant) &&
        count <= num_places_ - std::min(num_taken_, num_places_)) {
      taken_[tenant] = count;
      num_taken_ += count;
      return true;
    }
    for (std::size_t taken = 0; taken < count; ++taken) {
      if (take(tenant, num_tenants)) continue;
      for (; taken > 0; --taken) give_back(tenant);
      return false;
    }
    return true;
  }
  void give_back(const std::string& tenant) {
    const auto found = taken_.find(tenant);
    if (found == taken_.end()) return;
    --num_taken_;
    if (--found->second == 0) taken_.erase(found);
  }
  void clear() {
    taken_.clear();
    num_taken_ = 0;
  }
  std::size_t num_taken() const noexcept { return num_taken_; }

  /// Places reserved for each of `num_tenants`.
  std::size_t reserved(std::size_t num_tenants) const noexcept {
    if (num_tenants < 2) return 0;
    const std::size_t least = num_places_ >= num_tenants ? 1 : 0;
    return std::max(least, num_places_ / 2 / num_tenants);
  }

 private:
  bool has_place(std::size_t taken, std::size_t num_tenants) const {
    if (num_taken_ >= num_places_) return false;
    const auto own = reserved(num_tenants);
    if (taken < own) return true;
    std::size_t beyond = 0; // places taken that are not reserved
    for (const auto& [tenant, count] : taken_) beyond += count - std::min(count, own);
    return beyond < num_places_ - own * num_tenants;
  }

  std::size_t num_places_;
  std::size_t num_taken_ = 0;
  std::map<std::string, std::size_t> taken_; ///< by tenant, without zero entries
};

} // namespace paceline::server
