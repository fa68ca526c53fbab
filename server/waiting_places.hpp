#pragma once

#include "server/fair_share.hpp"

#include <cstddef>
#include <map>
#include <mutex>
#include <string>

namespace paceline::server {

/// Requests of each model that run or wait in the engine, by API key: no key takes the places that are kept
/// for another one. With one key, or none, the engine's own queue is the only bound. Thread-safe.
class waiting_places {
 public:
  /// Places for all of `count` requests of `tenant` among `num_tenants`, or for none of them.
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
