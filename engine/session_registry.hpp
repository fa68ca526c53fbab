#pragma once

#include "protocol/actors/session_actor.hpp"
#include "runtime/base/ids.hpp"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <unordered_map>
#include <utility>

namespace paceline {

/// Sessions that have not ended, so that the engine outlives them. Thread-safe.
class session_registry {
 public:
  void add(request_id request, protocol::session_actor session) {
    std::lock_guard lock(mutex_);
    sessions_.emplace(request, std::move(session));
  }
  void remove(request_id request) {
    protocol::session_actor last; // released outside the lock: it may be the session's last handle
    {
      std::lock_guard lock(mutex_);
      const auto it = sessions_.find(request);
      if (it == sessions_.end()) return;
      last = std::move(it->second);
      sessions_.erase(it);
      changed_.notify_all(); // inside the lock: who waits may destroy this as soon as it is released
    }
  }
  protocol::session_actor find(request_id request) const {
    std::lock_guard lock(mutex_);
    const auto it = sessions_.find(request);
    return it == sessions_.end() ? protocol::session_actor{} : it->second;
  }
  bool wait_until_empty(std::chrono::milliseconds timeout) const {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, timeout, [this] { return sessions_.empty(); });
  }

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::unordered_map<request_id, protocol::session_actor> sessions_;
};

} // namespace paceline
