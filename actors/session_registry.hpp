#pragma once

#include "runtime/base/ids.hpp"
#include "runtime/base/token_event.hpp"

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

namespace paceline::actors {

/// The requests whose clients may still be called, and their sessions. Shared by the engine and its actors.
/// An entry is added before its session starts and removed when the session has ended. Thread-safe. `Address`
/// is the type of a session's address; `Address{}` means none.
template <class Address>
class basic_session_registry {
 public:
  /// `session` is `Address{}` for a refused request, which has no session.
  void add(request_id request, Address session) {
    std::lock_guard lock(mutex_);
    sessions_.emplace(request, std::move(session));
  }
  void remove(request_id request) {
    [[maybe_unused]] Address last; // destroyed outside the lock: it may be the session's last handle
    std::lock_guard lock(mutex_);
    const auto it = sessions_.find(request);
    if (it == sessions_.end()) return;
    last = std::move(it->second);
    sessions_.erase(it);
    if (sessions_.empty()) empty_.notify_all();
  }
  Address find(request_id request) const {
    std::lock_guard lock(mutex_);
    const auto it = sessions_.find(request);
    return it == sessions_.end() ? Address{} : it->second;
  }
  /// True if the request's client may still be called.
  bool contains(request_id request) const {
    std::lock_guard lock(mutex_);
    return sessions_.contains(request);
  }
  /// All current sessions.
  std::vector<Address> all() const {
    std::lock_guard lock(mutex_);
    std::vector<Address> out;
    out.reserve(sessions_.size());
    for (const auto& [request, session] : sessions_)
      if (!(session == Address{})) out.push_back(session);
    return out;
  }
  /// Calls `send(session, index)` for each event whose request has a session. The clients of requests without
  /// a session have already received their last event.
  template <class Send>
  void route(const std::vector<token_event>& events, Send send) const {
    for (std::size_t i = 0; i < events.size(); ++i)
      if (const auto session = find(events[i].request); !(session == Address{})) send(session, i);
  }
  /// Waits until no entry is left; false if some remain after `timeout`.
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
  std::unordered_map<request_id, Address> sessions_;
};

} // namespace paceline::actors
