// Compiled with -mavx2 -mfma -mf16c. Eight rows of a tile, its lower or upper half, fill a register.
#include "runtime/cpu/kernels/matmul_256-inl.hpp"

#include <bit>

namespace paceline::cpu {
namespace {

using device::tensor_type;

/// Both int16 halves of each lane: (low of a, low of b).
__m256i pair16(__m256i a, __m256i b) { return _mm256_blend_epi16(a, _mm256_slli_epi32(b, 16), 0xAA); }

template <packed_format F, std::uint32_t G>
[[gnu::always_inline]] inline __m256i signed_codes(const std::byte* codes) {
  if constexpr (F.lookup) {
    const __m128i values = _mm_loadu_si128(reinterpret_cast<const __m128i*>(device::iq4_values.data()));
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(values), unsigned_codes<F, G>(codes));
  } else {
    return load(codes + G * line_bytes);
  }
}

/// The values, besides codes, of a tile's rows in one block, in halves; shared by the rows of x.
template <packed_format F>
struct block_scales {
  __m256i multiplier[2][2]; ///< [group][half] int16 pairs: the group's integer scale; with has_scales only
  __m256i offsets[2];       ///< [half] int16 pairs: the two groups' scale * offset
  __m256 mins[2][2];        ///< [group][half]

  [[gnu::always_inline]] inline block_scales(const std::byte* meta, const __m256 (&m)[2]) {
    for (std::uint32_t h = 0; h < 2; ++h) {
      mins[0][h] = mins[1][h] = m[h];
      if constexpr (!F.has_scales) continue;
      __m256i scale[2];
      for (std::uint32_t g = 0; g < F.groups; ++g) {
        scale[g] = _mm256_cvtepi8_epi32(load8(meta + g * tile_rows + h * half_rows));
        multiplier[g][h] = pair16(scale[g], scale[g]);
        if constexpr (F.has_mins) {
          const __m256i min = _mm256_cvtepu8_epi32(load8(meta + (F.groups + g) * tile_rows + h * half_rows));
          mins[g][h] = _mm256_mul_ps(m[h], _mm256_cvtepi32_ps(min));
        }
      }
      if constexpr (F.groups == 2 && F.offset != 0)
        offsets[h] = _mm256_slli_epi16(pair16(scale[0], scale[1]), std::countr_zero(F.offset));
    }
  }

  /// Adds adjacent int16 products of `group` and multiplies by its integer scale.
  [[gnu::always_inline]] inline __m256i widen(__m256i products, std::uint32_t group,
                                              std::uint32_t half) const {
    return _mm256_madd_epi16(products, F.has_scales ? multiplier[group][half] : _mm256_set1_epi16(1));
  }
};

/// sum += products of int16, or sum = products for the first ones.
template <bool First>
[[gnu::always_inline]] inline void add_in_order(__m256i& sum, __m256i products) {
  sum = First ? products : _mm256_add_epi16(sum, products);
  keep_order(sum);
}

/// The integers j of op_matmul.hpp for N rows of x, from unsigned codes of at most six bits. An int16 holds
/// several sums of products of two adjacent columns: 8 for 4-bit codes (30,480), 4 for 5-bit (31,496), 2 for
/// 6-bit (32,004).
template <packed_format F, std::uint32_t N>
[[gnu::always_inline]] inline void dot_unsigned(const std::byte* codes, const activation_block* x,
                                                const block_scales<F>& scales, __m256i (&j)[2][N]) {
  constexpr std::uint32_t fitting = F.code_bits <= 4 ? 8 : F.code_bits == 5 ? 4 : 2;
  constexpr std::uint32_t run = std::min<std::uint32_t>(fitting, 8 / F.groups);
  unrolled<8 / run>([&](auto outer) __attribute__((always_inline)) {
    __m256i sums[2][N];
    unrolled<run>([&](auto inner) __attribute__((always_inline)) {
      constexpr std::uint32_t g = outer() * run + inner();
      const __m256i w[2] = {unsigned_codes<F, g>(codes), unsigned_codes<F, g>(codes + line_bytes / 2)};
      unrolled<N>([&](auto r) __attribute__((always_inline)) {
        const __m256i q = broadcast4(x[r()].q.data() + 4 * g);
        for (std::uint32_t h = 0; h < 2; ++h)
          add_in_order<inner() == 0>(sums[h][r()], _mm256_maddubs_epi16(w[h], q));
      });
    });
    constexpr std::uint32_t group = outer() * run * F.groups / 8;
    unrolled<N>([&](auto r) __attribute__((always_inline)) {
      for (std::uint32_t h = 0; h < 2; ++h) {
        const __m256i wide = scales.widen(sums[h][r()], group, h);
        j[h][r()] = outer() == 0 ? wide : _mm256_add_epi32(j[h][r()], wide);
      }
    });
  });
  if constexpr (F.offset == 0) return;
  unrolled<N>([&](auto r) __attribute__((always_inline)) {
    const __m256i excess = F.groups == 2
                               ? broadcast4(x[r()].sums16.data())
                               : _mm256_slli_epi32(broadcast4(&x[r()].sum), std::countr_zero(F.offset));
    for (std::uint32_t h = 0; h < 2; ++h)
      j[h][r()] =
          _mm256_sub_epi32(j[h][r()], F.groups == 2 ? _mm256_madd_epi16(scales.offsets[h], excess) : excess);
  });
}

/// The same for signed codes -128..127. The instruction needs one unsigned factor, so the sign is moved to x.
/// A sum of two products is at most 32,512.
template <packed_format F, std::uint32_t N>
[[gnu::always_inline]] inline void dot_signed(const std::byte* codes, const activation_block* x,
                                              const block_scales<F>& scales, __m256i (&j)[2][N]) {
  unrolled<8>([&](auto g) __attribute__((always_inline)) {
    const __m256i w[2] = {signed_codes<F, g()>(codes), signed_codes<F, g()>(codes + line_bytes / 2)};
    const __m256i magnitude[2] = {_mm256_abs_epi8(w[0]), _mm256_abs_epi8(w[1])};
    unrolled<N>([&](auto r) __attribute__((always_inline)) {
      const __m256i q = broadcast4(x[r()].q.data() + 4 * g());
      for (std::uint32_t h = 0; h < 2; ++h) {
        const __m256i products = _mm256_maddubs_epi16(magnitude[h], _mm256_sign_epi8(q, w[h]));
        const __m256i wide = scales.widen(products, 0, h);
        j[h][r()] = g() == 0 ? wide : _mm256_add_epi32(j[h][r()], wide);
        keep_order(j[h][r()]);
      }
    });
  });
}

struct avx2_step {
  using integers = __m256i;
  template <packed_format F>
  using scales = block_scales<F>;

  template <packed_format F, std::uint32_t N>
  [[gnu::always_inline]] static inline void dot(const std::byte* codes, const activation_block* x,
                                                const block_scales<F>& scales, __m256i (&j)[2][N]) {
    if constexpr (F.code_bits == 8 || F.lookup)
      dot_signed<F, N>(codes, x, scales, j);
    else
      dot_unsigned<F, N>(codes, x, scales, j);
  }
};

/// Iterates over the columns of half a tile of floating-point weights.
template <tensor_type Type>
class column_reader {
 public:
  column_reader(const std::byte* tile, std::uint32_t half) : at_(tile + half * half_rows * size) {}

  [[gnu::always_inline]] __m256 next() {
    const std::byte* const at = at_;
    at_ += tile_rows * size;
    if constexpr (Type == tensor_type::f32) {
      return _mm256_loadu_ps(reinterpret_cast<const float*>(at));
    } else if constexpr (Type == tensor_type::f16) {
      return load_f16(at);
    } else {
      const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at)));
      return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
    }
  }

 private:
  static constexpr std::uint32_t size = Type == tensor_type::f32 ? 4 : 2;
  const std::byte* at_;
};

/// Codes become float16 with 2^-8 times their value (f16_of_e4m3_over_256); the scales compensate for the
/// factor.
template <>
class column_reader<tensor_type::f8_e4m3> {
 public:
  column_reader(const std::byte* tile, std::uint32_t half) : at_(tile), half_(half) {}

  [[gnu::always_inline]] __m256 next() {
    if (left_ == 0) {
      const auto* const scales = reinterpret_cast<const float*>(at_) + half_ * half_rows;
      scales_ = _mm256_mul_ps(_mm256_loadu_ps(scales), _mm256_set1_ps(256));
      at_ += f8_scales_bytes;
      left_ = device::f8_block::num_values;
    }
    const __m128i codes =
        _mm_slli_epi16(_mm_cvtepi8_epi16(load8(at_ + half_ * half_rows)), 7); // duplicates the sign bit
    --left_;
    at_ += tile_rows;
    return _mm256_mul_ps(_mm256_cvtph_ps(_mm_and_si128(codes, _mm_set1_epi16(~0x4000))), scales_);
  }

 private:
  const std::byte* at_;
  std::uint32_t half_;
  std::uint32_t left_ = 0; ///< columns left with the same scales
  __m256 scales_ = _mm256_setzero_ps();
};

/// Half a tile of float weights times N rows of x, with one chain for even and one for odd columns.
template <tensor_type Type, std::uint32_t N>
void multiply_float_half(const std::byte* tile, std::uint32_t half, const float* panel,
                         std::uint32_t num_cols, float* out) {
  column_reader<Type> columns(tile, half);
  __m256 acc[2][N];
  for (auto& chain : acc)
    for (auto& sum : chain) sum = _mm256_setzero_ps();
  std::uint32_t k = 0;
  for (; k + 2 <= num_cols; k += 2, panel += 2 * N)
    for (std::uint32_t odd = 0; odd < 2; ++odd) {
      const __m256 w = columns.next();
      unrolled<N>([&](auto r) __attribute__((always_inline)) {
        acc[odd][r()] = _mm256_fmadd_ps(w, _mm256_set1_ps(panel[odd * N + r()]), acc[odd][r()]);
      });
    }
  if (k < num_cols) {
    const __m256 w = columns.next();
    for (std::uint32_t r = 0; r < N; ++r) acc[0][r] = _mm256_fmadd_ps(w, _mm256_set1_ps(panel[r]), acc[0][r]);
  }
  for (std::uint32_t r = 0; r < N; ++r)
    _mm256_storeu_ps(out + half * half_rows + r * tile_rows, _mm256_add_ps(acc[0][r], acc[1][r]));
}

struct avx2_level {
  template <tensor_type Type, std::uint32_t N>
  static void quantised(const tile_part& part, const activation_block* panel, float* out) {
    multiply_tile<avx2_step, Type, N>(part, panel, out);
  }

  template <tensor_type Type, std::uint32_t N>
  static void floats(const std::byte* tile, const float* panel, std::uint32_t num_cols, float* out) {
    for (std::uint32_t half = 0; half < 2; ++half)
      multiply_float_half<Type, N>(tile, half, panel, num_cols, out);
  }
};

/// Sum of the eight lanes, which are exact integers.
std::int32_t lane_sum(__m256i x) {
  const __m128i four = _mm_add_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
  const __m128i two = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4E));
  return _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32(two, 0xB1)));
}

std::int32_t lane_max(__m256i x) {
  const __m128i four = _mm_max_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
  const __m128i two = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0x4E));
  return _mm_cvtsi128_si32(_mm_max_epi32(two, _mm_shuffle_epi32(two, 0xB1)));
}

void quantise_block(const float* x, activation_block& block) {
  constexpr std::int32_t infinity = 0x7f800000, smallest = (127 - 100) << 23; // bits of the floats
  __m256 value[4];
  // Magnitudes of floats have the same order as their bits as integers.
  __m256i largest = _mm256_setzero_si256();
  for (int i = 0; i < 4; ++i) {
    value[i] = _mm256_loadu_ps(x + 8 * i);
    largest = _mm256_max_epi32(
        largest, _mm256_and_si256(_mm256_castps_si256(value[i]), _mm256_set1_epi32(0x7fffffff)));
  }
  const std::int32_t amax_bits = lane_max(largest);
  const bool usable = amax_bits >= smallest && amax_bits < infinity;
  const float amax = std::bit_cast<float>(amax_bits);
  block.d = usable ? amax / 127.0f : amax_bits < infinity ? 0.0f : std::bit_cast<float>(0x7fc00000);
  const __m256 inverse = _mm256_set1_ps(usable ? 127.0f / amax : 0.0f);
  __m256i q[4];
  for (int i = 0; i < 4; ++i) {
    const __m256i rounded = _mm256_cvtps_epi32(_mm256_mul_ps(value[i], inverse));
    q[i] = usable ? rounded : _mm256_setzero_si256();
  }
  const std::int32_t sums[2] = {lane_sum(_mm256_add_epi32(q[0], q[1])),
                                lane_sum(_mm256_add_epi32(q[2], q[3]))};
  // Packing works within halves of a register and leaves the groups of four columns in the order 0 2 4 6 1 3
  // 5 7.
  const __m256i bytes = _mm256_packs_epi16(_mm256_packs_epi32(q[0], q[1]), _mm256_packs_epi32(q[2], q[3]));
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  _mm256_store_si256(reinterpret_cast<__m256i*>(block.q.data()), _mm256_permutevar8x32_epi32(bytes, order));
  for (int g = 0; g < 2; ++g) {
    block.sums[g] = sums[g];
    block.sums16[g] = static_cast<std::int16_t>(sums[g]);
    block.min_factors[g] = block.d * static_cast<float>(sums[g]);
  }
  block.sum = sums[0] + sums[1];
  block.min_factor = block.d * static_cast<float>(block.sum);
}

void quantise_avx2(const float* x, std::uint32_t num_blocks, activation_block* out, std::size_t stride) {
  for (std::size_t b = 0; b < num_blocks; ++b) quantise_block(x + b * block_cols, out[b * stride]);
}

} // namespace

const matmul_kernels& avx2_matmul_kernels() {
  static constexpr matmul_kernels kernels{&quantise_avx2, 4, &quantised_table<avx2_level>,
                                          &float_table<avx2_level>};
  return kernels;
}

} // namespace paceline::cpu
