#pragma once

#include <chrono>
#include <cstdint>
#include <thread>

#if defined(__x86_64__)
#include <immintrin.h> // _mm_pause
#endif

namespace paceline::cpu {

/// Evaluates `ready` until it is true or `limit` has passed, and returns its last value. Polls at first, then
/// yields between polls, so that another thread that waits for a core can use this thread's core.
template <class Ready>
bool spin_until(std::chrono::microseconds limit, Ready&& ready) {
  constexpr std::uint32_t polls_per_look = 64; // about 1 to 3 us with the processor's pause
  constexpr std::uint32_t looks_before_yield = 16;
  std::chrono::steady_clock::time_point end{};
  for (std::uint32_t look = 0;; ++look) {
    for (std::uint32_t i = 0; i < polls_per_look; ++i) {
      if (ready()) return true;
#if defined(__x86_64__)
      _mm_pause();
#endif
    }
    const auto now = std::chrono::steady_clock::now();
    if (look == 0)
      end = now + limit;
    else if (now >= end)
      return ready();
    if (look >= looks_before_yield) std::this_thread::yield();
  }
}

} // namespace paceline::cpu
