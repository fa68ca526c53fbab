#pragma once

// Products of quantised weights in registers of 256 bits. A register holds one value for each of eight rows
// of a tile: the tile's lower or upper half. The source file of each kernel level that has such registers
// includes this file. The template argument Step says how codes and activations are multiplied:
//
//     Step::integers     a register type: __m256i, or __m256 with whole numbers
//     Step::scales<F>    the scales and minima of one block of a tile
//     Step::dot<F, N>    computes the integers j[half][row of x] of op_matmul.hpp for N rows of x
//
// A Step::scales object is constructed from `meta` (packed_layout.hpp) and m, the scale of the minima. This
// file reads its member mins[group][half]. The integers must be exact, so that all levels give the same bits.
#include "runtime/cpu/kernels/matmul_table-inl.hpp"
#include "runtime/cpu/packed_layout.hpp"

#include <immintrin.h>

#include <cstring>

namespace paceline::cpu {
namespace {

constexpr std::uint32_t half_rows = 8;

__m256i load(const std::byte* at) { return _mm256_load_si256(reinterpret_cast<const __m256i*>(at)); }
__m128i load8(const std::byte* at) { return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(at)); }

/// The four bytes at `at`, in each lane of 32 bits.
template <class T>
__m256i broadcast4(const T* at) {
  std::int32_t four = 0;
  std::memcpy(&four, at, sizeof four);
  return _mm256_set1_epi32(four);
}

__m256 load_f16(const std::byte* at) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at)));
}

/// Unsigned codes of columns 4 * G .. 4 * G + 3 of a block, for half of the tile's rows. `codes` points to
/// the half's bytes in the block's first line.
template <packed_format F, std::uint32_t G>
[[gnu::always_inline]] inline __m256i unsigned_codes(const std::byte* codes) {
  const auto line = [&](std::uint32_t index) { return load(codes + index * line_bytes); };
  /// Bits [from, from + count) of each byte, moved to bit `to`.
  const auto field = [](__m256i bytes, int from, int count, int to) {
    const __m256i mask = _mm256_set1_epi8(static_cast<char>(((1 << count) - 1) << to));
    const __m256i moved =
        from > to ? _mm256_srli_epi16(bytes, from - to) : _mm256_slli_epi16(bytes, to - from);
    return _mm256_and_si256(from == to ? bytes : moved, mask);
  };
  if constexpr (F.code_bits >= 4) {
    const __m256i low = field(line(G % 4), G / 4 * 4, 4, 0);
    if constexpr (F.code_bits == 5) return _mm256_or_si256(low, field(line(4), G, 1, 4));
    if constexpr (F.code_bits == 6) return _mm256_or_si256(low, field(line(4 + G / 4), G % 4 * 2, 2, 4));
    return low;
  } else {
    const __m256i low = field(line(G / 4), G % 4 * 2, 2, 0);
    if constexpr (F.code_bits == 3) return _mm256_or_si256(low, field(line(2), G, 1, 2));
    return low;
  }
}

/// Calls fn with std::integral_constant 0 .. Count-1.
template <std::uint32_t Count, class Fn>
[[gnu::always_inline]] inline void unrolled(Fn&& fn) {
  [&]<std::size_t... I>(std::index_sequence<I...>) __attribute__((always_inline)) {
    (fn(std::integral_constant<std::uint32_t, I>()), ...);
  }
  (std::make_index_sequence<Count>());
}

inline __m256 as_float(__m256i whole) { return _mm256_cvtepi32_ps(whole); }
inline __m256 as_float(__m256 whole) { return whole; }

/// Forces the compiler to keep the written order. Otherwise it computes many products before it adds them and
/// runs out of registers.
[[gnu::always_inline]] inline void keep_order(__m256i& value) { asm volatile("" : "+x"(value)); }

/// Adds the products of one block of a tile and N rows of x to `acc`. `d`: the block's scales.
template <class Step, packed_format F, std::uint32_t N>
[[gnu::always_inline]] inline void
add_block(const std::byte* codes, const typename Step::template scales<F>& scales, const __m256 (&d)[2],
          const activation_block* x, __m256 (*acc)[2]) {
  typename Step::integers j[2][N];
  Step::template dot<F, N>(codes, x, scales, j);
  unrolled<N>([&](auto r) __attribute__((always_inline)) {
    const activation_block& row = x[r()];
    for (std::uint32_t h = 0; h < 2; ++h) {
      __m256 sum =
          _mm256_fmadd_ps(_mm256_mul_ps(as_float(j[h][r()]), d[h]), _mm256_set1_ps(row.d), acc[r()][h]);
      if constexpr (F.has_mins && F.groups == 1)
        sum = _mm256_fmadd_ps(scales.mins[0][h], _mm256_set1_ps(row.min_factor), sum);
      if constexpr (F.has_mins && F.groups == 2) {
        sum = _mm256_fmadd_ps(scales.mins[0][h], _mm256_set1_ps(row.min_factors[0]), sum);
        sum = _mm256_fmadd_ps(scales.mins[1][h], _mm256_set1_ps(row.min_factors[1]), sum);
      }
      acc[r()][h] = sum;
    }
  });
}

/// Multiplies a part of a tile of quantised weights with N rows of x. Adds the products to `out`,
/// [N][tile_rows]. The part that begins with block 0 overwrites `out` instead.
template <class Step, device::tensor_type Type, std::uint32_t N>
void multiply_tile(const tile_part& part, const activation_block* panel, float* out) {
  constexpr packed_format F = packed_format_of(Type);
  constexpr std::uint32_t first = N <= 4 ? N : (N + 1) / 2; // rows of x whose integer sums fit in registers
  const std::byte* meta = meta_of<F>(part);
  const std::byte* codes = codes_of<F>(part);
  __m256 acc[N][2];
  for (std::uint32_t r = 0; r < N; ++r)
    for (std::uint32_t h = 0; h < 2; ++h)
      acc[r][h] =
          part.begin == 0 ? _mm256_setzero_ps() : _mm256_loadu_ps(out + r * tile_rows + h * half_rows);
  tile_prefetch<F> ahead(part);
  for (std::uint32_t b = part.begin; b < part.end; b += F.unit_blocks) {
    const __m256 d[2] = {load_f16(meta), load_f16(meta + 2 * half_rows)};
    __m256 m[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
    if constexpr (F.has_mins) {
      m[0] = load_f16(meta + 2 * tile_rows);
      m[1] = load_f16(meta + 2 * (tile_rows + half_rows));
    }
    meta += tile_rows * (F.has_mins ? 4 : 2);
    for (std::uint32_t i = 0; i < F.unit_blocks; ++i) {
      ahead.next_block();
      const typename Step::template scales<F> scales(meta, m);
      add_block<Step, F, first>(codes, scales, d, panel, acc);
      if constexpr (N > first) add_block<Step, F, N - first>(codes, scales, d, panel + first, acc + first);
      codes += F.code_bytes();
      meta += F.block_meta_bytes();
      panel += N;
    }
  }
  for (std::uint32_t r = 0; r < N; ++r)
    for (std::uint32_t h = 0; h < 2; ++h) _mm256_storeu_ps(out + r * tile_rows + h * half_rows, acc[r][h]);
}

} // namespace
} // namespace paceline::cpu
