#include "apps/interrupt_watch.hpp"

#include <atomic>
#include <cerrno>
#include <sys/eventfd.h>

namespace paceline::apps {

namespace {

// The handler may run on any thread and cannot reach an object.
std::atomic<bool> noted{false};
std::atomic<int> interrupts{-1}; // an eventfd, which stays open
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int>::is_always_lock_free);

void note(int) {
  const int before = errno;
  noted = true;
  eventfd_write(interrupts, 1);
  errno = before;
}

} // namespace

interrupt_watch::interrupt_watch(const std::vector<int>& signals) {
  if (interrupts < 0) interrupts = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  reset();
  struct sigaction action {};
  action.sa_handler = note;
  action.sa_flags = SA_RESTART; // system calls of the engine's threads continue
  sigemptyset(&action.sa_mask);
  before_.reserve(signals.size());
  for (const int signal : signals) {
    struct sigaction usual {};
    sigaction(signal, &action, &usual);
    before_.emplace_back(signal, usual);
  }
}

interrupt_watch::~interrupt_watch() {
  for (const auto& [signal, usual] : before_) sigaction(signal, &usual, nullptr);
}

bool interrupt_watch::interrupted() const noexcept { return noted; }

void interrupt_watch::reset() noexcept {
  eventfd_t count = 0;
  eventfd_read(interrupts, &count);
  noted = false;
}

int interrupt_watch::descriptor() const noexcept { return interrupts; }

} // namespace paceline::apps
