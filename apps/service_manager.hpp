#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace paceline::apps {

/// Reports the daemon's state to systemd (sd_notify(3)) in datagrams to the socket named by NOTIFY_SOCKET.
/// Without that variable all functions do nothing.
class service_manager {
 public:
  service_manager();
  ~service_manager();
  service_manager(const service_manager&) = delete;
  service_manager& operator=(const service_manager&) = delete;

  void ready(std::string_view status) const;
  /// Reports one line of text for operators, without a change of state.
  void status(std::string_view text) const;
  void stopping(std::string_view status) const;
  /// The configuration is being read again, until the next `ready`.
  void reloading() const;
  /// Sends a watchdog notification. systemd ignores it if the service has no watchdog.
  void alive() const;

  /// How often to call `alive`: half of the time that WatchdogSec allows. nullopt if there is no watchdog.
  std::optional<std::chrono::microseconds> watchdog_interval() const;

 private:
  void send(std::string_view message) const;

  int socket_ = -1;
  std::string address_; ///< bytes of the sockaddr_un
};

} // namespace paceline::apps
