#pragma once

#include "server/executor.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace paceline::server {

/// Receives the snapshots of GET /paceline/events, on its executor.
class event_watcher {
 public:
  virtual ~event_watcher() = default;
  /// `is_last`: there will be none after it.
  virtual void on_snapshot(const std::shared_ptr<const std::string>& text, bool is_last) = 0;
};

/// Gives one text a second to everybody who watches. The text is made once for all, and only if somebody
/// watches. Thread-safe.
class event_desk {
 public:
  /// `make_text` gets the number of the snapshot.
  event_desk(std::size_t most_watchers, std::function<std::string(std::uint64_t)> make_text)
      : most_(most_watchers), make_text_(std::move(make_text)) {}

  /// The watcher receives a first snapshot at once, and then each one until it is gone. False if there are
  /// too many, or no more to come.
  [[nodiscard]] bool watch(std::weak_ptr<event_watcher> watcher, executor_ptr executor);
  /// The watcher receives the first snapshot alone, and takes no place. False if there are no more to come.
  [[nodiscard]] bool look(std::weak_ptr<event_watcher> watcher, executor_ptr executor) const;
  /// Sends a snapshot. `is_last`: and lets nobody watch any more.
  void publish(bool is_last = false);

  std::size_t num_watchers() const;

 private:
  struct place {
    std::weak_ptr<event_watcher> watcher;
    executor_ptr executor;
  };
  static void send(const place& to, const std::shared_ptr<const std::string>& text, bool is_last);
  void forget_gone(); ///< under the lock

  const std::size_t most_;
  const std::function<std::string(std::uint64_t)> make_text_;
  mutable std::mutex mutex_;
  std::vector<place> places_;
  std::uint64_t number_ = 0; ///< of the last snapshot that all got; a newcomer begins with it
  bool ended_ = false;
};

} // namespace paceline::server
