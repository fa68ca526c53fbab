#include "apps/interrupt_watch.hpp"

#include <atomic>

namespace paceline::apps {

namespace {

std::atomic<bool> noted{false}; // the handler may run on any thread
static_assert(std::atomic<bool>::is_always_lock_free);

void note(int) { noted = true; }

} // namespace

interrupt_watch::interrupt_watch() {
  noted = false;
  struct sigaction action {};
  action.sa_handler = note;
  action.sa_flags = SA_RESTART; // system calls of the engine's threads continue
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, &before_);
}

interrupt_watch::~interrupt_watch() { sigaction(SIGINT, &before_, nullptr); }

bool interrupt_watch::interrupted() const noexcept { return noted; }

} // namespace paceline::apps
