#pragma once

#include <csignal>
#include <utility>
#include <vector>

namespace paceline::apps {

/// While an object exists, its signals are recorded and do not end the process, no matter which thread
/// receives them. At most one object may exist at a time.
class interrupt_watch {
 public:
  explicit interrupt_watch(const std::vector<int>& signals = {SIGINT});
  ~interrupt_watch();
  interrupt_watch(const interrupt_watch&) = delete;
  interrupt_watch& operator=(const interrupt_watch&) = delete;

  /// True once one of the signals has arrived, until `reset`.
  bool interrupted() const noexcept;
  /// Forgets what has arrived.
  void reset() noexcept;
  /// For poll(): readable once one of the signals has arrived, until `reset`.
  int descriptor() const noexcept;

 private:
  std::vector<std::pair<int, struct sigaction>> before_;
};

} // namespace paceline::apps
