#pragma once

#include "actors/behaviors.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace paceline::actors {

/// Where the actors are now, for those outside the actor system. Thread-safe. Written by the supervisor;
/// emptied before the actor system ends, for a handle that outlives it would keep it from ending.
class directory {
 public:
  struct entry {
    std::string name; ///< "scheduler/smollm2"
    caf::strong_actor_ptr address;
    std::shared_ptr<actor_meter> meter;
  };

  void put(const std::string& name, caf::strong_actor_ptr address) {
    std::lock_guard lock(mutex_);
    auto& e = entries_[name];
    e.name = name;
    e.address = std::move(address);
    if (!e.meter) e.meter = std::make_shared<actor_meter>();
  }
  std::shared_ptr<actor_meter> meter(const std::string& name) {
    std::lock_guard lock(mutex_);
    auto& e = entries_[name];
    e.name = name;
    if (!e.meter) e.meter = std::make_shared<actor_meter>();
    return e.meter;
  }
  template <class Handle>
  Handle get(const std::string& name) const {
    std::lock_guard lock(mutex_);
    const auto it = entries_.find(name);
    return it == entries_.end() ? Handle{} : caf::actor_cast<Handle>(it->second.address);
  }
  std::vector<entry> all() const {
    std::lock_guard lock(mutex_);
    std::vector<entry> out;
    for (const auto& [name, e] : entries_) out.push_back(e);
    return out;
  }
  void clear() {
    std::lock_guard lock(mutex_);
    for (auto& [name, e] : entries_) e.address = nullptr;
  }

  /// `model` serves no more; the first reason stays.
  void take_out_of_service(model_number model, error why) {
    std::lock_guard lock(mutex_);
    out_of_service_.emplace(model, std::move(why));
  }
  std::optional<error> out_of_service(model_number model) const {
    std::lock_guard lock(mutex_);
    const auto it = out_of_service_.find(model);
    return it == out_of_service_.end() ? std::nullopt : std::optional(it->second);
  }

  void mark_unhealthy() {
    std::lock_guard lock(mutex_);
    healthy_ = false;
  }
  bool healthy() const {
    std::lock_guard lock(mutex_);
    return healthy_ && std::ranges::none_of(
                           entries_, [](const auto& e) { return e.second.meter && e.second.meter->failing; });
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, entry> entries_;
  std::map<model_number, error> out_of_service_;
  bool healthy_ = true;
};

} // namespace paceline::actors
