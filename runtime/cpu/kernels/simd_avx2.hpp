#pragma once

// For translation units compiled with -mavx2 -mfma -mf16c.
#include "runtime/device/float16.hpp"

#include <immintrin.h>

#include <cstdint>
#include <cstring>

namespace paceline::cpu {
// Internal linkage: code compiled for this level must never replace another level's at link time.
namespace {

/// Sixteen float32 lanes in two registers, with the operations the row kernels need.
struct simd_avx2 {
  struct vec {
    __m256 low, high;
  };
  static constexpr std::uint32_t lanes = 16;
  /// Number of queries whose scores fit in registers beside the keys.
  static constexpr std::uint32_t tile_queries = 6;
  /// Number of independent chains of fused multiply-adds, each of one `vec`, that keep the arithmetic units
  /// busy.
  static constexpr std::uint32_t chains = 4;

  static vec set1(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
  static vec zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
  static vec broadcast(const float* x) { return {_mm256_broadcast_ss(x), _mm256_broadcast_ss(x)}; }

  static vec load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
  static vec load(const std::uint16_t* p) { return {half(p), half(p + 8)}; }
  static vec load(const device::bfloat16* p) { return {brain(p), brain(p + 8)}; }
  static vec load(const std::int8_t* p) { return {code(p), code(p + 8)}; }
  static void store(float* p, vec x) {
    _mm256_storeu_ps(p, x.low);
    _mm256_storeu_ps(p + 8, x.high);
  }
  static void fence() { _mm_sfence(); } ///< makes `stream` visible to other threads before later stores
  static void stream(float* p, vec x) { // non-temporal; aligned to 64 bytes
    _mm256_stream_ps(p, x.low);
    _mm256_stream_ps(p + 8, x.high);
  }
  static void store(std::uint16_t* p, vec x) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(x.low, _MM_FROUND_TO_NEAREST_INT));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p + 8), _mm256_cvtps_ph(x.high, _MM_FROUND_TO_NEAREST_INT));
  }
  static void store(device::bfloat16* p, vec x) {
    // In `both` the quarters are in the order 0 2 1 3.
    const __m256i both = _mm256_packus_epi32(top_half(x.low), top_half(x.high));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                        _mm256_permute4x64_epi64(both, _MM_SHUFFLE(3, 1, 2, 0)));
  }
  /// Stores lanes that hold integers in -128..127.
  static void store(std::int8_t* p, vec x) {
    const __m256i words = _mm256_packs_epi32(_mm256_cvtps_epi32(x.low), _mm256_cvtps_epi32(x.high));
    const __m256i ordered = _mm256_permute4x64_epi64(words, _MM_SHUFFLE(3, 1, 2, 0));
    const __m128i bytes =
        _mm_packs_epi16(_mm256_castsi256_si128(ordered), _mm256_extracti128_si256(ordered, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), bytes);
  }
  /// The first `n` < 16 lanes; the others are 0.
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

  static vec add(vec x, vec y) { return {_mm256_add_ps(x.low, y.low), _mm256_add_ps(x.high, y.high)}; }
  static vec sub(vec x, vec y) { return {_mm256_sub_ps(x.low, y.low), _mm256_sub_ps(x.high, y.high)}; }
  static vec mul(vec x, vec y) { return {_mm256_mul_ps(x.low, y.low), _mm256_mul_ps(x.high, y.high)}; }
  static vec div(vec x, vec y) { return {_mm256_div_ps(x.low, y.low), _mm256_div_ps(x.high, y.high)}; }
  /// x * y + z, rounded once.
  static vec fma(vec x, vec y, vec z) {
    return {_mm256_fmadd_ps(x.low, y.low, z.low), _mm256_fmadd_ps(x.high, y.high, z.high)};
  }
  /// sum = x * y + sum, rounded once, in place, so that arrays of accumulators stay in registers.
  static void add_product(vec& sum, vec x, vec y) {
    sum.low = _mm256_fmadd_ps(x.low, y.low, sum.low);
    sum.high = _mm256_fmadd_ps(x.high, y.high, sum.high);
  }
  /// `max` and `min` give y if either is NaN.
  static vec max(vec x, vec y) { return {_mm256_max_ps(x.low, y.low), _mm256_max_ps(x.high, y.high)}; }
  static vec min(vec x, vec y) { return {_mm256_min_ps(x.low, y.low), _mm256_min_ps(x.high, y.high)}; }
  static vec bits_and(vec x, vec y) { return {_mm256_and_ps(x.low, y.low), _mm256_and_ps(x.high, y.high)}; }
  static vec bits_or(vec x, vec y) { return {_mm256_or_ps(x.low, y.low), _mm256_or_ps(x.high, y.high)}; }
  static vec bits_xor(vec x, vec y) { return {_mm256_xor_ps(x.low, y.low), _mm256_xor_ps(x.high, y.high)}; }
  /// Nearest integer, ties to even.
  static vec round(vec x) { return {nearest(x.low), nearest(x.high)}; }
  /// 2^n for integer n in -126..127.
  static vec power_of_two(vec n) { return {exponent(n.low), exponent(n.high)}; }
  /// Per lane x < y ? a : b.
  static vec select_less(vec x, vec y, vec a, vec b) {
    return {_mm256_blendv_ps(b.low, a.low, _mm256_cmp_ps(x.low, y.low, _CMP_LT_OQ)),
            _mm256_blendv_ps(b.high, a.high, _mm256_cmp_ps(x.high, y.high, _CMP_LT_OQ))};
  }

  static float first(vec x) { return _mm256_cvtss_f32(x.low); }
  /// Lanes added in halves: l and l + 8, l and l + 4, l and l + 2, l and l + 1.
  static float reduce_add(vec x) {
    const __m256 eight = _mm256_add_ps(x.low, x.high);
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
  }
  static float reduce_max(vec x) {
    const __m256 eight = _mm256_max_ps(x.low, x.high);
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
  }

  /// `deinterleave` divides the lanes a0 b0 a1 b1 ... of (x, y) into a and b; `interleave` does the reverse.
  static void deinterleave(vec x, vec y, vec& a, vec& b) {
    a = {evens(x.low, x.high), evens(y.low, y.high)};
    b = {odds(x.low, x.high), odds(y.low, y.high)};
  }
  static void interleave(vec a, vec b, vec& x, vec& y) {
    zip(a.low, b.low, x.low, x.high);
    zip(a.high, b.high, y.low, y.high);
  }

 private:
  static __m256 half(const std::uint16_t* p) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  static __m256 brain(const device::bfloat16* p) {
    const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
  }
  static __m256 code(const std::int8_t* p) {
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
  }
  /// bf16_of_float of each lane.
  static __m256i top_half(__m256 x) {
    const __m256i bits = _mm256_castps_si256(x);
    const __m256i cut = _mm256_srli_epi32(bits, 16);
    const __m256i half =
        _mm256_add_epi32(_mm256_and_si256(cut, _mm256_set1_epi32(1)), _mm256_set1_epi32(0x7fff));
    const __m256i rounded = _mm256_srli_epi32(_mm256_add_epi32(bits, half), 16);
    const __m256i quiet = _mm256_or_si256(cut, _mm256_set1_epi32(0x40));
    return _mm256_blendv_epi8(rounded, quiet, _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q)));
  }
  static __m256 nearest(__m256 x) {
    return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  static __m256 exponent(__m256 n) { // 1.5 * 2^23 + 127 leaves n + 127 in the low bits of the fraction
    const __m256 biased = _mm256_add_ps(n, _mm256_set1_ps(12583039.0F));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(biased), 23));
  }
  static __m256 fix_order(__m256 x) {
    return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(x), _MM_SHUFFLE(3, 1, 2, 0)));
  }
  static __m256 evens(__m256 x, __m256 y) {
    return fix_order(_mm256_shuffle_ps(x, y, _MM_SHUFFLE(2, 0, 2, 0)));
  }
  static __m256 odds(__m256 x, __m256 y) {
    return fix_order(_mm256_shuffle_ps(x, y, _MM_SHUFFLE(3, 1, 3, 1)));
  }
  static void zip(__m256 a, __m256 b, __m256& x, __m256& y) {
    const __m256 low = _mm256_unpacklo_ps(a, b);
    const __m256 high = _mm256_unpackhi_ps(a, b);
    x = _mm256_permute2f128_ps(low, high, 0x20);
    y = _mm256_permute2f128_ps(low, high, 0x31);
  }
};

} // namespace
} // namespace paceline::cpu
