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

  /// The signal that `wake_up` sends: SIGUSR1.
  static const int wake;
  /// Makes a call of `wait`, on the thread that constructed this object, return `wake`. Callable on any
  /// thread.
  void wake_up() const;

  /// Waits for SIGTERM, SIGINT, SIGHUP or `wake` and returns it; nullopt after `limit`, or earlier if another
  /// signal interrupts the wait.
  std::optional<int> wait(std::chrono::microseconds limit) const;
  /// Unblocks SIGINT, so that a user can end the process at once by pressing Ctrl-C again during a shutdown.
  /// SIGTERM stays blocked, because a service manager may repeat it.
  void let_interrupt_end_it() const;

 private:
  unsigned long main_thread_;
};

} // namespace paceline::apps
