#pragma once

#include <chrono>

namespace paceline {

/// Length of the time slice that `prefer_short_turns` asks for.
inline constexpr std::chrono::nanoseconds short_turn = std::chrono::microseconds(100);

/// By how much `prefer_short_turns` lowers the thread's niceness if the process may lower it (RLIMIT_NICE,
/// CAP_SYS_NICE).
inline constexpr int short_turn_niceness = 5;

/// Asks the kernel for short time slices for the calling thread. Meant for threads that pass messages on and
/// sleep again. A thread with short slices runs as soon as it wakes, before a computing thread with long
/// slices. This needs no privilege, but Linux 6.12 or later (`sched_setattr(2)` with a run time for
/// SCHED_OTHER); other kernels ignore the time slice.
///
/// A thread that wakes several times in a row has used up its share of the time by the second wake-up and
/// would wait. So its niceness is lowered too, if the process may do that (docs/decisions/0564).
void prefer_short_turns() noexcept;

/// The time slice that the calling thread has asked for; 0 if the kernel does not report one.
std::chrono::nanoseconds preferred_turn() noexcept;

} // namespace paceline
