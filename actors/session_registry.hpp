#pragma once

#include "protocol/type_ids.hpp"
#include "runtime/base/ids.hpp"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

namespace paceline::actors {

/// Requests whose clients may still be called, and their sessions. Shared by the engine and its actors: an
/// entry is made before its session starts and goes when the session is over. Thread-safe.
class session_registry {
 public:
  /// `session` may be null: a request that is refused has none.
  void add(request_id request, protocol::session_actor session) {
    std::lock_guard lock(mutex_);
    sessions_.emplace(request, std::move(session));
  }
  void remove(request_id request) {
    protocol::session_actor last; // released outside the lock: it may be the session's last handle
    std::lock_guard lock(mutex_);
    const auto it = sessions_.find(request);
    if (it == sessions_.end()) return;
    last = std::move(it->second);
    sessions_.erase(it);
    if (sessions_.empty()) empty_.notify_all();
  }
  protocol::session_actor find(request_id request) const {
    std::lock_guard lock(mutex_);
    const auto it = sessions_.find(request);
    return it == sessions_.end() ? protocol::session_actor{} : it->second;
  }
  /// Every session there is now.
  std::vector<protocol::session_actor> all() const {
    std::lock_guard lock(mutex_);
    std::vector<protocol::session_actor> out;
    out.reserve(sessions_.size());
    for (const auto& [request, session] : sessions_)
      if (session) out.push_back(session);
    return out;
  }
  /// False if there are entries after `timeout`.
  bool wait_until_empty(std::chrono::milliseconds timeout) const {
    std::unique_lock lock(mutex_);
    return empty_.wait_for(lock, timeout, [this] { return sessions_.empty(); });
  }
  void wait_until_empty() const {
    std::unique_lock lock(mutex_);
    empty_.wait(lock, [this] { return sessions_.empty(); });
  }

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable empty_;
  std::unordered_map<request_id, protocol::session_actor> sessions_;
};

} // namespace paceline::actors
