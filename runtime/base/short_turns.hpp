#pragma once

#include <chrono>

namespace paceline {

/// Length of the time slice that `prefer_short_turns` asks for.
inline constexpr std::chrono::nanoseconds short_turn = std::chrono::microseconds(100);

/// How much lower its niceness becomes where the process may lower it (RLIMIT_NICE, CAP_SYS_NICE).
inline constexpr int short_turn_niceness = 5;

/// For threads that pass something on and sleep again: asks the kernel for short time slices of the calling
/// thread. It then runs before a computing thread with long time slices as soon as it wakes (Linux 6.12 and
/// later, `sched_setattr(2)` with a run time for ordinary threads), which needs no privilege. A thread that
/// wakes several times in a row has used its share by the second time and waits all the same. So it gets a
/// larger share where the process may give it one (docs/decisions/0564). On other kernels it has no effect.
/// Callable on any thread.
void prefer_short_turns() noexcept;

/// The time slice that the calling thread has asked for; 0 if the kernel does not report it.
std::chrono::nanoseconds preferred_turn() noexcept;

} // namespace paceline
