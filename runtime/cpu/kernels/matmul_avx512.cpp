// Compiled with -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni -mavx2 -mfma -mf16c. The sixteen rows
// of a tile fill a register. With PACELINE_EMULATE_AVX512 (in the parity test) SIMDe emulates the same
// intrinsics on any machine.
#ifdef PACELINE_EMULATE_AVX512
#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx512.h>
#define avx512_vnni_matmul_kernels emulated_avx512_vnni_matmul_kernels
#else
#include <immintrin.h>
#endif

#include "runtime/cpu/kernels/matmul_table-inl.hpp"
#include "runtime/cpu/packed_layout.hpp"

#include <bit>
#include <cstring>

namespace paceline::cpu {
namespace {

using device::tensor_type;

__m512i load(const std::byte* at) { return _mm512_loadu_si512(at); }

template <class T>
__m512i broadcast4(const T* at) { // four bytes to each lane
  std::int32_t four = 0;
  std::memcpy(&four, at, sizeof four);
  return _mm512_set1_epi32(four);
}

#ifdef PACELINE_EMULATE_AVX512
__m512 join(__m256 low, __m256 high) { return _mm512_insertf32x8(_mm512_castps256_ps512(low), high, 1); }
__m512i join(__m256i low, __m256i high) { return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1); }
__m128i upper(__m256i x) { return _mm256_extracti128_si256(x, 1); }

__m512 to_float(__m512i x) {
  return join(_mm256_cvtepi32_ps(_mm512_castsi512_si256(x)),
              _mm256_cvtepi32_ps(_mm512_extracti64x4_epi64(x, 1)));
}
__m512 from_f16(__m256i x) {
  return join(_mm256_cvtph_ps(_mm256_castsi256_si128(x)), _mm256_cvtph_ps(upper(x)));
}
__m512i from_u16(__m256i x) {
  return join(_mm256_cvtepu16_epi32(_mm256_castsi256_si128(x)), _mm256_cvtepu16_epi32(upper(x)));
}
__m512i from_i8(__m128i x) {
  return join(_mm256_cvtepi8_epi32(x), _mm256_cvtepi8_epi32(_mm_srli_si128(x, 8)));
}
__m512i from_u8(__m128i x) {
  return join(_mm256_cvtepu8_epi32(x), _mm256_cvtepu8_epi32(_mm_srli_si128(x, 8)));
}
#else
__m512 to_float(__m512i x) { return _mm512_cvtepi32_ps(x); }
__m512 from_f16(__m256i x) { return _mm512_cvtph_ps(x); }
__m512i from_u16(__m256i x) { return _mm512_cvtepu16_epi32(x); }
__m512i from_i8(__m128i x) { return _mm512_cvtepi8_epi32(x); }
__m512i from_u8(__m128i x) { return _mm512_cvtepu8_epi32(x); }
#endif

__m256i load256(const std::byte* at) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)); }
__m128i load128(const std::byte* at) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(at)); }

/// Calls fn with std::integral_constant 0 .. Count-1.
template <std::uint32_t Count, class Fn>
[[gnu::always_inline]] inline void unrolled(Fn&& fn) {
  [&]<std::size_t... I>(std::index_sequence<I...>) __attribute__((always_inline)) {
    (fn(std::integral_constant<std::uint32_t, I>()), ...);
  }
  (std::make_index_sequence<Count>());
}

/// Codes of columns 4 * G .. 4 * G + 3 of the tile's rows plus excess<F>, of the block whose codes begin at
/// `codes`.
template <packed_format F, std::uint32_t G>
[[gnu::always_inline]] inline __m512i unsigned_codes(const std::byte* codes) {
  const auto line = [&](std::uint32_t index) { return load(codes + index * line_bytes); };
  /// Bits [from, from + count) of each byte at bit `to`.
  const auto field = [](__m512i bytes, int from, int count, int to) {
    const __m512i mask = _mm512_set1_epi8(static_cast<char>(((1 << count) - 1) << to));
    const __m512i moved = from > to ? _mm512_srli_epi16(bytes, static_cast<unsigned>(from - to))
                                    : _mm512_slli_epi16(bytes, static_cast<unsigned>(to - from));
    return _mm512_and_si512(from == to ? bytes : moved, mask);
  };
  if constexpr (F.code_bits == 8) {
    return _mm512_xor_si512(line(G), _mm512_set1_epi8(static_cast<char>(0x80)));
  } else if constexpr (F.lookup) {
    const __m128i values = _mm_loadu_si128(reinterpret_cast<const __m128i*>(device::iq4_values.data()));
    const __m128i above = _mm_xor_si128(values, _mm_set1_epi8(static_cast<char>(0x80)));
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(above), field(line(G % 4), G / 4 * 4, 4, 0));
  } else if constexpr (F.code_bits >= 4) {
    const __m512i low = field(line(G % 4), G / 4 * 4, 4, 0);
    if constexpr (F.code_bits == 5) return _mm512_or_si512(low, field(line(4), G, 1, 4));
    if constexpr (F.code_bits == 6) return _mm512_or_si512(low, field(line(4 + G / 4), G % 4 * 2, 2, 4));
    return low;
  } else {
    const __m512i low = field(line(G / 4), G % 4 * 2, 2, 0);
    if constexpr (F.code_bits == 3) return _mm512_or_si512(low, field(line(2), G, 1, 2));
    return low;
  }
}

/// Partial sums for each of N rows. The result of an instruction is available after five cycles, and two
/// instructions begin in each cycle, so ten or more sums keep the units busy. They are integers, so their
/// order changes no bit.
template <std::uint32_t N>
constexpr std::uint32_t num_chains = N <= 4 ? 4 : 2;

/// Sum over the columns of group Group of code * q, for N rows of x. The instruction multiplies unsigned by
/// signed bytes. The sums start with the negative of what the offset of the codes will add.
template <packed_format F, std::uint32_t N, std::uint32_t Group>
[[gnu::always_inline]] inline void dot_group(const std::byte* codes, const activation_block* x,
                                             __m512i (&sums)[N]) {
  constexpr std::uint32_t lines = 8 / F.groups, chains = num_chains<N>;
  __m512i parts[chains][N];
  for (std::uint32_t r = 0; r < N; ++r) {
    const std::int32_t sum = F.groups == 1 ? x[r].sum : x[r].sums[Group];
    parts[0][r] = excess<F> == 0 ? _mm512_setzero_si512() : _mm512_set1_epi32(-(sum * excess<F>));
    for (std::uint32_t c = 1; c < chains; ++c) parts[c][r] = _mm512_setzero_si512();
  }
  unrolled<lines>([&](auto index) __attribute__((always_inline)) {
    constexpr std::uint32_t g = Group * lines + index(), c = index() % chains;
    const __m512i w = unsigned_codes<F, g>(codes);
    for (std::uint32_t r = 0; r < N; ++r)
      parts[c][r] = _mm512_dpbusd_epi32(parts[c][r], w, broadcast4(x[r].q.data() + 4 * g));
  });
  for (std::uint32_t step = chains / 2; step > 0; step /= 2)
    for (std::uint32_t c = 0; c < step; ++c)
      for (std::uint32_t r = 0; r < N; ++r) parts[c][r] = _mm512_add_epi32(parts[c][r], parts[c + step][r]);
  for (std::uint32_t r = 0; r < N; ++r) sums[r] = parts[0][r];
}

/// One block of a tile times N rows of x. Integers stay below 2^24, so floats represent them exactly.
template <packed_format F, std::uint32_t N>
[[gnu::always_inline]] inline void add_block(const std::byte* codes, const std::byte* meta, __m512 d,
                                             __m512 m, const activation_block* x, __m512 (&acc)[N]) {
  __m512 j[N];
  unrolled<F.groups>([&](auto group) __attribute__((always_inline)) {
    __m512i sums[N];
    dot_group<F, N, group()>(codes, x, sums);
    __m512 scale = _mm512_setzero_ps();
    if constexpr (F.has_scales) scale = to_float(from_i8(load128(meta + group() * tile_rows)));
    for (std::uint32_t r = 0; r < N; ++r) {
      const __m512 sum = to_float(sums[r]);
      if constexpr (!F.has_scales)
        j[r] = sum;
      else if constexpr (group() == 0)
        j[r] = _mm512_mul_ps(sum, scale);
      else
        j[r] = _mm512_fmadd_ps(sum, scale, j[r]);
    }
  });
  for (std::uint32_t r = 0; r < N; ++r)
    acc[r] = _mm512_fmadd_ps(_mm512_mul_ps(j[r], d), _mm512_set1_ps(x[r].d), acc[r]);
  if constexpr (F.has_mins)
    unrolled<F.groups>([&](auto group) __attribute__((always_inline)) {
      __m512 min = m;
      if constexpr (F.has_scales)
        min = _mm512_mul_ps(m, to_float(from_u8(load128(meta + (F.groups + group()) * tile_rows))));
      for (std::uint32_t r = 0; r < N; ++r) {
        const float factor = F.groups == 1 ? x[r].min_factor : x[r].min_factors[group()];
        acc[r] = _mm512_fmadd_ps(min, _mm512_set1_ps(factor), acc[r]);
      }
    });
}

/// Iterates over the columns of a tile of floating-point weights.
template <tensor_type Type>
class column_reader {
 public:
  explicit column_reader(const std::byte* tile) : at_(tile) {}

  [[gnu::always_inline]] __m512 next() {
    const std::byte* const at = at_;
    at_ += tile_rows * (Type == tensor_type::f32 ? 4 : 2);
    if constexpr (Type == tensor_type::f32)
      return _mm512_loadu_ps(at);
    else if constexpr (Type == tensor_type::f16)
      return from_f16(load256(at));
    else
      return _mm512_castsi512_ps(_mm512_slli_epi32(from_u16(load256(at)), 16));
  }

 private:
  const std::byte* at_;
};

/// Codes become float16 with 2^-8 times their value (f16_of_e4m3_over_256); the scales compensate for the
/// factor.
template <>
class column_reader<tensor_type::f8_e4m3> {
 public:
  explicit column_reader(const std::byte* tile) : at_(tile) {}

  [[gnu::always_inline]] __m512 next() {
    if (left_ == 0) {
      scales_ = _mm512_mul_ps(_mm512_loadu_ps(at_), _mm512_set1_ps(256));
      at_ += f8_scales_bytes;
      left_ = device::f8_block::num_values;
    }
    const __m256i codes = _mm256_slli_epi16(_mm256_cvtepi8_epi16(load128(at_)), 7); // duplicates the sign bit
    --left_;
    at_ += tile_rows;
    return _mm512_mul_ps(from_f16(_mm256_and_si256(codes, _mm256_set1_epi16(~0x4000))), scales_);
  }

 private:
  const std::byte* at_;
  std::uint32_t left_ = 0; ///< columns left with the same scales
  __m512 scales_ = _mm512_setzero_ps();
};

struct avx512_level {
  template <tensor_type Type, std::uint32_t N>
  static void quantised(const tile_part& part, const activation_block* panel, float* out) {
    constexpr packed_format F = packed_format_of(Type);
    const std::byte* meta = meta_of<F>(part);
    const std::byte* codes = codes_of<F>(part);
    tile_prefetch<F> ahead(part);
    __m512 acc[N];
    for (std::uint32_t r = 0; r < N; ++r)
      acc[r] = part.begin == 0 ? _mm512_setzero_ps() : _mm512_loadu_ps(out + r * tile_rows);
    for (std::uint32_t b = part.begin; b < part.end; b += F.unit_blocks) {
      const __m512 d = from_f16(load256(meta));
      const __m512 m = F.has_mins ? from_f16(load256(meta + 2 * tile_rows)) : _mm512_setzero_ps();
      meta += tile_rows * (F.has_mins ? 4 : 2);
      for (std::uint32_t i = 0; i < F.unit_blocks; ++i) {
        ahead.next_block();
        add_block<F, N>(codes, meta, d, m, panel, acc);
        codes += F.code_bytes();
        meta += F.block_meta_bytes();
        panel += N;
      }
    }
    for (std::uint32_t r = 0; r < N; ++r) _mm512_storeu_ps(out + r * tile_rows, acc[r]);
  }

  template <tensor_type Type, std::uint32_t N>
  static void floats(const std::byte* tile, const float* panel, std::uint32_t num_cols, float* out) {
    column_reader<Type> columns(tile);
    __m512 acc[2][N]; // even and odd columns
    for (auto& chain : acc)
      for (auto& sum : chain) sum = _mm512_setzero_ps();
    std::uint32_t k = 0;
    for (; k + 2 <= num_cols; k += 2, panel += 2 * N)
      for (std::uint32_t odd = 0; odd < 2; ++odd) {
        const __m512 w = columns.next();
        unrolled<N>([&](auto r) __attribute__((always_inline)) {
          acc[odd][r()] = _mm512_fmadd_ps(w, _mm512_set1_ps(panel[odd * N + r()]), acc[odd][r()]);
        });
      }
    if (k < num_cols) {
      const __m512 w = columns.next();
      for (std::uint32_t r = 0; r < N; ++r)
        acc[0][r] = _mm512_fmadd_ps(w, _mm512_set1_ps(panel[r]), acc[0][r]);
    }
    for (std::uint32_t r = 0; r < N; ++r)
      _mm512_storeu_ps(out + r * tile_rows, _mm512_add_ps(acc[0][r], acc[1][r]));
  }
};

} // namespace

const matmul_kernels& avx512_vnni_matmul_kernels() {
  // Quantising a row is a small part of a product and is the same at both levels.
  static const matmul_kernels kernels{avx2_matmul_kernels().quantise, max_kernel_rows,
                                      &quantised_table<avx512_level>, &float_table<avx512_level>};
  return kernels;
}

} // namespace paceline::cpu
