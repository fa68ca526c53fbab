#pragma once

#include "actors/behaviors.hpp"
#include "actors/fault_book.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace paceline::actors {

/// The current addresses of the actors, and which models are out of service, for code outside the actor
/// system. Thread-safe. The supervisor updates the directory. It removes all addresses before the actor
/// system ends, because a remaining address would keep the system from ending.
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
  /// The meter of an actor; made at the first call.
  std::shared_ptr<actor_meter> meter(const std::string& name) {
    std::lock_guard lock(mutex_);
    auto& e = entries_[name];
    e.name = name;
    if (!e.meter) e.meter = std::make_shared<actor_meter>();
    return e.meter;
  }
  /// The address of an actor; null if it has none.
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
  /// Removes all addresses and keeps the meters.
  void clear() {
    std::lock_guard lock(mutex_);
    for (auto& [name, e] : entries_) e.address = nullptr;
  }

  void set_num_models(std::size_t num) {
    std::lock_guard lock(mutex_);
    num_models_ = num;
  }
  /// Marks `model` as out of service; the first reason is kept.
  void take_out_of_service(model_number model, error why) {
    std::lock_guard lock(mutex_);
    out_of_service_.emplace(model, std::move(why));
  }
  std::optional<error> out_of_service(model_number model) const {
    std::lock_guard lock(mutex_);
    const auto it = out_of_service_.find(model);
    return it == out_of_service_.end() ? std::nullopt : std::optional(it->second);
  }

  /// Called when the supervisor itself has failed. Actors that fail after that are not restarted.
  void mark_unhealthy() {
    std::lock_guard lock(mutex_);
    healthy_ = false;
  }
  /// False if the process should be restarted: the supervisor failed, no model is in service, or a device
  /// fails (`actor_meter::failing`).
  bool healthy() const {
    std::lock_guard lock(mutex_);
    const bool one_serves = num_models_ == 0 || out_of_service_.size() < num_models_;
    return healthy_ && one_serves && std::ranges::none_of(entries_, [](const auto& e) {
             return e.second.meter && e.second.meter->failing;
           });
  }

  /// The recorded failures; shared, because their writers may outlive the directory.
  const std::shared_ptr<fault_book>& faults() const noexcept { return faults_; }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, entry> entries_;
  std::map<model_number, error> out_of_service_;
  std::size_t num_models_ = 0; ///< 0: not set yet
  bool healthy_ = true;
  std::shared_ptr<fault_book> faults_ = std::make_shared<fault_book>();
};

} // namespace paceline::actors
