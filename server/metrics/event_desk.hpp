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
  /// `is_last`: no snapshot follows.
  virtual void on_snapshot(const std::shared_ptr<const std::string>& text, bool is_last) = 0;
};

/// Distributes snapshots to all watchers (`publish` is called once a second). The text is made once for all
/// of them, and only if there is a watcher. Thread-safe.
class event_desk {
 public:
  /// `make_text` gets the number of the snapshot. It is called while the desk's lock is held.
  event_desk(std::size_t most_watchers, std::function<std::string(std::uint64_t)> make_text)
      : most_(most_watchers), make_text_(std::move(make_text)) {}

  /// The watcher receives a snapshot at once, and then every published snapshot until the watcher is
  /// destroyed. False if there are too many watchers, or after the last snapshot.
  [[nodiscard]] bool watch(std::weak_ptr<event_watcher> watcher, executor_ptr executor);
  /// The watcher receives one snapshot, at once, and does not count as a watcher afterwards. False after the
  /// last snapshot.
  [[nodiscard]] bool look(std::weak_ptr<event_watcher> watcher, executor_ptr executor) const;
  /// Sends a snapshot to all watchers. With `is_last` no more watchers are accepted.
  void publish(bool is_last = false);

  std::size_t num_watchers() const;

 private:
  struct place {
    std::weak_ptr<event_watcher> watcher;
    executor_ptr executor;
  };
  static void send(const place& to, const std::shared_ptr<const std::string>& text, bool is_last);
  void forget_gone(); ///< `mutex_` must be held

  const std::size_t most_;
  const std::function<std::string(std::uint64_t)> make_text_;
  mutable std::mutex mutex_;
  std::vector<place> places_;
  /// Number of the last published snapshot. The first snapshot of a new watcher has the same number.
  std::uint64_t number_ = 0;
  bool ended_ = false;
};

} // namespace paceline::server
