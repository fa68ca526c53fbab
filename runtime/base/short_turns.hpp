#pragma once

#include <chrono>

namespace paceline {

/// Length of a turn on a core that `prefer_short_turns` asks for.
inline constexpr std::chrono::nanoseconds short_turn = std::chrono::microseconds(100);

/// How much lower its niceness becomes where the process may (RLIMIT_NICE, CAP_SYS_NICE).
inline constexpr int short_turn_niceness = 5;

/// For threads that hand something on and sleep again: asks the kernel to give the calling thread short turns
/// on a core, which makes it go before a thread that computes in long ones as soon as it wakes (Linux 6.12
/// and later, `sched_setattr(2)` with a run time for ordinary threads). For that no right is needed. One that
/// wakes several times in a row has used up its share by the second time and waits all the same: so it is
/// given a larger one where the process may do that (docs/decisions/0564). Where the kernel knows nothing of
/// it nothing changes. Any thread.
void prefer_short_turns() noexcept;

/// The turn length that the calling thread has asked for; 0 where the kernel does not tell.
std::chrono::nanoseconds preferred_turn() noexcept;

} // namespace paceline
