#pragma once

#include "server/net/acknowledged_bytes.hpp"
#include "server/net/io_runtime.hpp"
#include "server/net/write_deadline.hpp"

#include <boost/asio/steady_timer.hpp>

#include <algorithm>
#include <utility>

namespace paceline::server {

/// Applies a write_deadline to a connection, on its strand: asks the kernel periodically how many bytes the
/// client has acknowledged.
class write_watch {
 public:
  write_watch(const io_strand& strand, std::chrono::milliseconds patience, std::uint64_t min_bytes_per_second)
      : timer_(strand), deadline_(patience, min_bytes_per_second), interval_(patience / 4) {}

  /// Output begins to wait. `expired(owner)` is called once if the client falls too far behind. The watch
  /// must be a member of `owner`.
  template <class Owner, class Expired>
  void begin(std::weak_ptr<Owner> owner, int descriptor, Expired expired) {
    if (std::exchange(active_, true)) return;
    descriptor_ = descriptor;
    deadline_.begin(std::chrono::steady_clock::now(), acknowledged_bytes(descriptor));
    wait(std::move(owner), std::move(expired));
  }
  /// No output waits any more.
  void end() {
    if (std::exchange(active_, false)) timer_.cancel();
  }

 private:
  template <class Owner, class Expired>
  void wait(std::weak_ptr<Owner> owner, Expired expired) {
    timer_.expires_at(std::min(deadline_.expiry(), std::chrono::steady_clock::now() + interval_));
    timer_.async_wait([this, owner, expired](boost::system::error_code cancelled) {
      const auto self = owner.lock();
      if (cancelled || !self || !active_) return;
      if (timer_.expiry() > std::chrono::steady_clock::now()) return; // ended and begun again in the meantime
      if (deadline_.observe(std::chrono::steady_clock::now(), acknowledged_bytes(descriptor_)))
        return wait(owner, expired);
      active_ = false;
      expired(*self);
    });
  }

  boost::asio::steady_timer timer_;
  write_deadline deadline_;
  std::chrono::steady_clock::duration interval_;
  int descriptor_ = -1;
  bool active_ = false;
};

} // namespace paceline::server
