#include "apps/service_manager.hpp"

#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace paceline::apps {

namespace {

std::optional<std::uint64_t> number_in(const char* variable) {
  const char* text = std::getenv(variable);
  if (text == nullptr) return std::nullopt;
  std::uint64_t value = 0;
  const auto* end = text + std::strlen(text);
  const auto [stop, failure] = std::from_chars(text, end, value);
  return failure == std::errc{} && stop == end ? std::optional(value) : std::nullopt;
}

} // namespace

service_manager::service_manager() {
  const char* name = std::getenv("NOTIFY_SOCKET");
  sockaddr_un address{};
  const std::size_t size = name == nullptr ? 0 : std::strlen(name);
  // The name is a path, or, after '@', a name in Linux's abstract namespace, which begins with a zero byte.
  if (size < 2 || size >= sizeof address.sun_path || (name[0] != '/' && name[0] != '@')) return;
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, name, size);
  if (name[0] == '@') address.sun_path[0] = '\0';
  address_.assign(reinterpret_cast<const char*>(&address), offsetof(sockaddr_un, sun_path) + size);
  socket_ = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
}

service_manager::~service_manager() {
  if (socket_ >= 0) ::close(socket_);
}

void service_manager::ready(std::string_view status) const {
  send(std::string("READY=1\nSTATUS=").append(status));
}

void service_manager::status(std::string_view text) const { send(std::string("STATUS=").append(text)); }

void service_manager::stopping(std::string_view status) const {
  send(std::string("STOPPING=1\nSTATUS=").append(status));
}

void service_manager::reloading() const {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  const auto microseconds =
      static_cast<std::uint64_t>(now.tv_sec) * 1'000'000 + static_cast<std::uint64_t>(now.tv_nsec) / 1000;
  send("RELOADING=1\nMONOTONIC_USEC=" + std::to_string(microseconds));
}

void service_manager::alive() const { send("WATCHDOG=1"); }

std::optional<std::chrono::microseconds> service_manager::watchdog_interval() const {
  const auto limit = number_in("WATCHDOG_USEC");
  const auto process = number_in("WATCHDOG_PID");
  if (socket_ < 0 || !limit || *limit == 0 || (process && *process != static_cast<std::uint64_t>(getpid())))
    return std::nullopt;
  return std::chrono::microseconds(*limit / 2);
}

void service_manager::send(std::string_view message) const {
  if (socket_ < 0) return;
  // A failure cannot be reported to anyone.
  [[maybe_unused]] const auto sent =
      ::sendto(socket_, message.data(), message.size(), MSG_NOSIGNAL,
               reinterpret_cast<const sockaddr*>(address_.data()), static_cast<socklen_t>(address_.size()));
}

} // namespace paceline::apps
