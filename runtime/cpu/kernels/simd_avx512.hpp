#pragma once

// For translation units compiled with -mavx512f -mavx512bw -mavx512vl -mavx512dq. With
// PACELINE_EMULATE_AVX512 (in parity tests) SIMDe emulates the same intrinsics on any machine.
#ifdef PACELINE_EMULATE_AVX512
#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx512.h>
#else
#include <immintrin.h>
#endif

#include "runtime/cpu/kernels/simd_avx2.hpp"

#include <cstdint>
#include <cstring>

namespace paceline::cpu {
// Internal linkage: code compiled for this level must never replace another level's at link time.
namespace {

/// Sixteen float32 lanes in one register; the operations of simd_avx2 with the same results.
struct simd_avx512 {
  using vec = __m512;
  static constexpr std::uint32_t lanes = 16;
  /// Number of queries whose scores fit in registers beside the keys.
  static constexpr std::uint32_t tile_queries = 12;
  /// Number of independent chains of fused multiply-adds, each of one `vec`, that keep the arithmetic units
  /// busy.
  static constexpr std::uint32_t chains = 8;

  static vec set1(float x) { return _mm512_set1_ps(x); }
  static vec zero() { return _mm512_setzero_ps(); }
  static vec broadcast(const float* x) { return _mm512_set1_ps(*x); }

  static vec load(const float* p) { return _mm512_loadu_ps(p); }
  static vec load(const std::uint16_t* p) {
    return widen(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  static vec load(const device::bfloat16* p) {
    const __m512i wide = from_u16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
    return as_float(_mm512_slli_epi32(wide, 16));
  }
  static vec load(const std::int8_t* p) {
    return to_float(from_i8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
  }
  static void store(float* p, vec x) { _mm512_storeu_ps(p, x); }
  static void stream(float* p, vec x) { simd_avx2::stream(p, halves(x)); } // SIMDe has no 512-bit form
  static void fence() { simd_avx2::fence(); }
  static void store(std::uint16_t* p, vec x) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), narrow(x));
  }
  static void store(device::bfloat16* p, vec x) { simd_avx2::store(p, halves(x)); }
  static void store(std::int8_t* p, vec x) { simd_avx2::store(p, halves(x)); }
  template <class T>
  static vec load_partial(const T* p, std::uint32_t n) {
    T padded[lanes] = {};
    std::memcpy(padded, p, n * sizeof(T));
    return load(padded);
  }
  template <class T>
  static void store_partial(T* p, vec x, std::uint32_t n) {
    T padded[lanes];
    store(padded, x);
    std::memcpy(p, padded, n * sizeof(T));
  }

  static vec add(vec x, vec y) { return _mm512_add_ps(x, y); }
  static vec sub(vec x, vec y) { return _mm512_sub_ps(x, y); }
  static vec mul(vec x, vec y) { return _mm512_mul_ps(x, y); }
  static vec div(vec x, vec y) { return _mm512_div_ps(x, y); }
  static vec fma(vec x, vec y, vec z) { return _mm512_fmadd_ps(x, y, z); }
  static void add_product(vec& sum, vec x, vec y) { sum = _mm512_fmadd_ps(x, y, sum); }
  static vec max(vec x, vec y) { return _mm512_max_ps(x, y); }
  static vec min(vec x, vec y) { return _mm512_min_ps(x, y); }
  static vec bits_and(vec x, vec y) { return as_float(_mm512_and_si512(as_int(x), as_int(y))); }
  static vec bits_or(vec x, vec y) { return as_float(_mm512_or_si512(as_int(x), as_int(y))); }
  static vec bits_xor(vec x, vec y) { return as_float(_mm512_xor_si512(as_int(x), as_int(y))); }
  static vec round(vec x) { return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
  static vec power_of_two(vec n) { // 1.5 * 2^23 + 127 leaves n + 127 in the low bits of the fraction
    return as_float(_mm512_slli_epi32(as_int(_mm512_add_ps(n, _mm512_set1_ps(12583039.0F))), 23));
  }
  static vec select_less(vec x, vec y, vec a, vec b) {
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(x, y, _CMP_LT_OQ), b, a);
  }

  static float first(vec x) { return _mm_cvtss_f32(_mm512_castps512_ps128(x)); }
  static float reduce_add(vec x) {
    const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(x), upper(x));
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
  }
  static float reduce_max(vec x) {
    const __m256 eight = _mm256_max_ps(_mm512_castps512_ps256(x), upper(x));
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
  }

  static void deinterleave(vec x, vec y, vec& a, vec& b) {
    const __m512i evens = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
    a = _mm512_permutex2var_ps(x, evens, y);
    b = _mm512_permutex2var_ps(x, _mm512_add_epi32(evens, _mm512_set1_epi32(1)), y);
  }
  static void interleave(vec a, vec b, vec& x, vec& y) {
    const __m512i first_half = _mm512_set_epi32(23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    x = _mm512_permutex2var_ps(a, first_half, b);
    y = _mm512_permutex2var_ps(a, _mm512_add_epi32(first_half, _mm512_set1_epi32(8)), b);
  }

 private:
#ifdef PACELINE_EMULATE_AVX512 // Debian's SIMDe has no 512-bit conversions
  static vec widen(__m256i x) {
    const __m256 high = _mm256_cvtph_ps(_mm256_extracti128_si256(x, 1));
    return _mm512_insertf32x8(_mm512_castps256_ps512(_mm256_cvtph_ps(_mm256_castsi256_si128(x))), high, 1);
  }
  static __m256i narrow(vec x) {
    const __m128i low = _mm256_cvtps_ph(_mm512_castps512_ps256(x), _MM_FROUND_TO_NEAREST_INT);
    return _mm256_inserti128_si256(_mm256_castsi128_si256(low),
                                   _mm256_cvtps_ph(upper(x), _MM_FROUND_TO_NEAREST_INT), 1);
  }
  static __m512i join(__m256i low, __m256i high) {
    return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
  }
  static __m512i from_u16(__m256i x) {
    return join(_mm256_cvtepu16_epi32(_mm256_castsi256_si128(x)),
                _mm256_cvtepu16_epi32(_mm256_extracti128_si256(x, 1)));
  }
  static __m512i from_i8(__m128i x) {
    return join(_mm256_cvtepi8_epi32(x), _mm256_cvtepi8_epi32(_mm_srli_si128(x, 8)));
  }
  static vec to_float(__m512i x) {
    const __m256 low = _mm256_cvtepi32_ps(_mm512_castsi512_si256(x));
    return _mm512_insertf32x8(_mm512_castps256_ps512(low),
                              _mm256_cvtepi32_ps(_mm512_extracti64x4_epi64(x, 1)), 1);
  }
#else
  static __m512i from_u16(__m256i x) { return _mm512_cvtepu16_epi32(x); }
  static __m512i from_i8(__m128i x) { return _mm512_cvtepi8_epi32(x); }
  static vec to_float(__m512i x) { return _mm512_cvtepi32_ps(x); }
  static vec widen(__m256i x) { return _mm512_cvtph_ps(x); }
  static __m256i narrow(vec x) { return _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
#endif
  static simd_avx2::vec halves(vec x) { return {_mm512_castps512_ps256(x), upper(x)}; }
  static __m512i as_int(vec x) { return _mm512_castps_si512(x); }
  static vec as_float(__m512i x) { return _mm512_castsi512_ps(x); }
  static __m256 upper(vec x) { return _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(x), 1)); }
};

} // namespace
} // namespace paceline::cpu
