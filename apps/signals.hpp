#pragma once

#include <chrono>
#include <optional>

namespace paceline::apps {

/// The signals of a daemon, which its main thread waits for, so that they interrupt no thread. Must be
/// constructed before any other thread, which then inherits the blocked signals.
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
  /// From now on SIGINT ends the process at once, for a user who insists. A service manager that repeats
  /// SIGTERM does not end it.
  void let_interrupt_end_it() const;

 private:
  unsigned long main_thread_;
};

} // namespace paceline::apps
