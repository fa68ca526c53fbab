#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace paceline::cpu {

/// Copies `count` values that will not be read soon. If `to` consists of whole cache lines, they are written
/// with non-temporal stores, so that the processor need not read the lines first. Other threads
/// may read the copy after this thread has called `finish_copies`.
inline void copy_past_caches(const float* from, std::size_t count, float* to) noexcept {
#ifdef __SSE2__
  constexpr std::size_t line_bytes = 64;
  if (reinterpret_cast<std::uintptr_t>(to) % line_bytes == 0 && count * sizeof(float) % line_bytes == 0) {
    for (std::size_t i = 0; i < count; i += 4) _mm_stream_ps(to + i, _mm_loadu_ps(from + i));
    return;
  }
#endif
  std::copy_n(from, count, to);
}

/// Makes this thread's copies visible before its later stores.
inline void finish_copies() noexcept {
#ifdef __SSE2__
  _mm_sfence();
#endif
}

} // namespace paceline::cpu
