#include "apps/signals.hpp"

#include <cerrno>
#include <csignal>
#include <ctime>
#include <initializer_list>
#include <pthread.h>

namespace paceline::apps {

namespace {

sigset_t set_of(std::initializer_list<int> members) {
  sigset_t set;
  sigemptyset(&set);
  for (const int member : members) sigaddset(&set, member);
  return set;
}

} // namespace

const int signals::wake = SIGUSR1;

signals::signals() : main_thread_(pthread_self()) {
  const auto blocked = set_of({SIGTERM, SIGINT, SIGHUP, wake});
  pthread_sigmask(SIG_BLOCK, &blocked, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
}

void signals::wake_up() const { pthread_kill(main_thread_, wake); }

std::optional<int> signals::wait(std::chrono::microseconds limit) const {
  const auto wanted = set_of({SIGTERM, SIGINT, SIGHUP, wake});
  const timespec time{static_cast<std::time_t>(limit.count() / 1'000'000),
                      static_cast<long>(limit.count() % 1'000'000) * 1000};
  const int signal = sigtimedwait(&wanted, nullptr, &time);
  return signal > 0 ? std::optional(signal) : std::nullopt;
}

void signals::let_interrupt_end_it() const {
  const auto interrupt = set_of({SIGINT});
  pthread_sigmask(SIG_UNBLOCK, &interrupt, nullptr);
}

} // namespace paceline::apps
