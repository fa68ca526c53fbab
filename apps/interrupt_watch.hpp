#pragma once

#include <csignal>

namespace paceline::apps {

/// While an object exists, SIGINT is recorded and does not end the process. At most one object may exist at a
/// time.
class interrupt_watch {
 public:
  interrupt_watch();
  ~interrupt_watch();
  interrupt_watch(const interrupt_watch&) = delete;
  interrupt_watch& operator=(const interrupt_watch&) = delete;

  /// True once SIGINT has arrived.
  bool interrupted() const noexcept;

 private:
  struct sigaction before_ {};
};

} // namespace paceline::apps
