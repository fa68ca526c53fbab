#pragma once

#include "server/fair_share.hpp"

#include <cstddef>
#include <map>
#include <mutex>
#include <string>

namespace paceline::server {

/// The places for running and waiting requests of each model, divided between API keys. fair_share reserves
/// places for each key. With one key or none there is no limit here; only the engine's queue limits the
/// requests. Thread-safe.
class waiting_places {
 public:
  /// Takes `count` of the model's `num_places` places for `tenant`, one of `num_tenants` tenants. False if
  /// `tenant` cannot have so many places now; no place is taken then.
  [[nodiscard]] bool take(const std::string& model, std::size_t num_places, const std::string& tenant,
                          std::size_t count, std::size_t num_tenants) {
    if (num_tenants < 2) num_places = static_cast<std::size_t>(-1);
    std::lock_guard lock(mutex_);
    auto& places = models_[model];
    places.resize(num_places);
    return places.take(tenant, count, num_tenants);
  }
  void give_back(const std::string& model, const std::string& tenant) {
    std::lock_guard lock(mutex_);
    if (const auto found = models_.find(model); found != models_.end()) found->second.give_back(tenant);
  }

 private:
  std::mutex mutex_;
  std::map<std::string, fair_share> models_;
};

} // namespace paceline::server
