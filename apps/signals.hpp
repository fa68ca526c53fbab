#pragma once

#include <chrono>
#include <optional>

namespace paceline::apps {

/// The signals that a daemon obeys, taken one at a time by its main thread instead of interrupting somebody.
/// Made before any other thread, which then inherits that they are blocked.
class signals {
 public:
  /// Blocks SIGTERM, SIGINT, SIGHUP and the private `wake`; ignores SIGPIPE.
  signals();

  /// Sent by `wake_up`.
  static const int wake;
  /// Makes a wait of the thread that made this object return `wake`. Any thread.
  void wake_up() const;

  /// The next of SIGTERM, SIGINT and `wake`; SIGHUP stays pending.
  int wait_while_loading() const;
  /// The next signal; none after `limit`.
  std::optional<int> wait(std::chrono::microseconds limit) const;
  /// From now on SIGINT ends the process at once: for a person who insists. A service manager that repeats
  /// SIGTERM does not.
  void let_interrupt_end_it() const;

 private:
  unsigned long main_thread_;
};

} // namespace paceline::apps
