#include "runtime/base/short_turns.hpp"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>

namespace paceline {

namespace {

/// The first version of the kernel's struct sched_attr, which the C library of Debian 12 does not declare.
struct thread_attributes {
  std::uint32_t size = sizeof(thread_attributes);
  std::uint32_t policy = 0;
  std::uint64_t flags = 0;
  std::int32_t nice = 0;
  std::uint32_t priority = 0;
  std::uint64_t runtime = 0, deadline = 0, period = 0; ///< nanoseconds
};
static_assert(sizeof(thread_attributes) == 48);

/// Reads the attributes of the calling thread.
bool read(thread_attributes& out) noexcept {
  return syscall(SYS_sched_getattr, 0, &out, sizeof(out), 0U) == 0;
}

} // namespace

void prefer_short_turns() noexcept {
  thread_attributes mine;
  if (!read(mine) || mine.policy != SCHED_OTHER) return; // another policy was chosen for the thread
  mine.size = sizeof(mine);
  mine.runtime = static_cast<std::uint64_t>(short_turn.count());
  auto heavier = mine;
  heavier.nice = std::max(mine.nice - short_turn_niceness, -20);
  // Neither is required: without the privilege or the kernel's support everything works as before.
  if (syscall(SYS_sched_setattr, 0, &heavier, 0U) != 0) (void)syscall(SYS_sched_setattr, 0, &mine, 0U);
}

std::chrono::nanoseconds preferred_turn() noexcept {
  thread_attributes mine;
  return std::chrono::nanoseconds(read(mine) ? mine.runtime : 0);
}

} // namespace paceline
