#pragma once

#include <chrono>
#include <optional>

namespace paceline::apps {

/// The signals of a daemon. They are blocked in all threads, and the main thread waits for them with `wait`.
/// Must be constructed before any thread is started, because threads inherit the set of blocked signals.
class signals {
 public:
  /// Blocks SIGTERM, SIGINT, SIGHUP and the private `wake`; ignores SIGPIPE.
  signals();

  /// Sent by `wake_up`.
  static const int wake;
  /// Makes a wait of the thread that constructed this object return `wake`. Callable on any thread.
  void wake_up() const;

  /// The next SIGTERM, SIGINT, SIGHUP or `wake`; nullopt after `limit`.
  std::optional<int> wait(std::chrono::microseconds limit) const;
  /// Unblocks SIGINT: the next one ends the process at once, so that a user can press Ctrl-C again during a
  /// shutdown. SIGTERM stays blocked, because a service manager may repeat it.
  void let_interrupt_end_it() const;

 private:
  unsigned long main_thread_;
};

} // namespace paceline::apps
