#pragma once

#include <chrono>

namespace paceline {

/// Length of a turn on a core that `prefer_short_turns` asks for.
inline constexpr std::chrono::nanoseconds short_turn = std::chrono::microseconds(100);

/// For threads that hand something on and sleep again: asks the kernel to give the calling thread short turns
/// on a core, which makes it go before a thread that computes in long ones as soon as it wakes (Linux 6.12
/// and later, `sched_setattr(2)` with a run time for ordinary threads). Its share of the core stays as it is,
/// and no right is needed. Where the kernel knows nothing of it nothing changes. Any thread.
void prefer_short_turns() noexcept;

/// The turn length that the calling thread has asked for; 0 where the kernel does not tell.
std::chrono::nanoseconds preferred_turn() noexcept;

} // namespace paceline
