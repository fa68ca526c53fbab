#pragma once

#include "server/net/io_runtime.hpp"

#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <memory>
#include <utility>

namespace paceline::server {

/// One deadline of a connection. All functions must be called on the connection's strand.
class strand_timer {
 public:
  explicit strand_timer(const io_strand& strand) : timer_(strand) {}

  /// Calls `expired(owner)` after `time`, unless the timer is cancelled or started again, or the owner is
  /// gone by then. The timer must be a member of `owner`.
  template <class Owner, class Expired>
  void start(std::chrono::milliseconds time, std::weak_ptr<Owner> owner, Expired expired) {
    timer_.expires_after(time);
    timer_.async_wait([this, owner = std::move(owner), expired](boost::system::error_code cancelled) {
      const auto self = owner.lock();
      if (cancelled || !self) return;
      if (timer_.expiry() > std::chrono::steady_clock::now()) return; // started again meanwhile
      expired(*self);
    });
  }
  void cancel() { timer_.cancel(); }

 private:
  boost::asio::steady_timer timer_;
};

} // namespace paceline::server
