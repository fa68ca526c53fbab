#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace paceline::apps {

/// Tells systemd how the daemon is (sd_notify(3)): datagrams to the socket that NOTIFY_SOCKET names. Without
/// one everything does nothing.
class service_manager {
 public:
  service_manager();
  ~service_manager();
  service_manager(const service_manager&) = delete;
  service_manager& operator=(const service_manager&) = delete;

  void ready(std::string_view status) const;
  void stopping(std::string_view status) const;
  /// Between this and the next `ready` the configuration is read again.
  void reloading() const;
  /// A sign of life; unasked-for ones are ignored.
  void alive() const;

  /// How often to call `alive`: half of the time that WatchdogSec allows. None if nobody watches.
  std::optional<std::chrono::microseconds> watchdog_interval() const;

 private:
  void send(std::string_view message) const;

  int socket_ = -1;
  std::string address_; ///< bytes of the sockaddr_un
};

} // namespace paceline::apps
