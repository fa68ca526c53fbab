// Compiled with -mavx2 -mfma -mf16c -mavxvnni, for processors with the byte products of AVX-512 VNNI in
// 256-bit registers. Everything except that product is shared with the AVX2 level. With
// PACELINE_EMULATE_AVX_VNNI (in the parity test) the instruction is emulated with AVX2.
#include "runtime/cpu/kernels/matmul_256-inl.hpp"

#include <bit>

#ifdef PACELINE_EMULATE_AVX_VNNI
#define avx_vnni_matmul_kernels emulated_avx_vnni_matmul_kernels
#endif

namespace paceline::cpu {
namespace {

using device::tensor_type;

/// sums + the four products of unsigned codes and signed q of each lane.
[[gnu::always_inline]] inline __m256i add_products(__m256i sums, __m256i codes, __m256i q) {
#ifdef PACELINE_EMULATE_AVX_VNNI
  // The lower seven bits and the top bit are multiplied separately: two products of either fit into 16 bits.
  const __m256i top = _mm256_set1_epi8(static_cast<char>(0x80));
  const __m256i one = _mm256_set1_epi16(1);
  sums = _mm256_add_epi32(sums,
                          _mm256_madd_epi16(_mm256_maddubs_epi16(_mm256_andnot_si256(top, codes), q), one));
  return _mm256_add_epi32(sums,
                          _mm256_madd_epi16(_mm256_maddubs_epi16(_mm256_and_si256(top, codes), q), one));
#else
  return _mm256_dpbusd_avx_epi32(sums, codes, q);
#endif
}

/// Codes of columns 4 * G .. 4 * G + 3 of half a tile's rows plus excess<F>.
template <packed_format F, std::uint32_t G>
[[gnu::always_inline]] inline __m256i excess_codes(const std::byte* codes) {
  const __m256i top = _mm256_set1_epi8(static_cast<char>(0x80));
  if constexpr (F.code_bits == 8) {
    return _mm256_xor_si256(load(codes + G * line_bytes), top);
  } else if constexpr (F.lookup) {
    const __m128i values = _mm_loadu_si128(reinterpret_cast<const __m128i*>(device::iq4_values.data()));
    const __m256i above = _mm256_xor_si256(_mm256_broadcastsi128_si256(values), top);
    return _mm256_shuffle_epi8(above, unsigned_codes<F, G>(codes));
  } else {
    return unsigned_codes<F, G>(codes);
  }
}

/// The values, besides codes, of a tile's rows in one block, in halves; shared by the rows of x.
template <packed_format F>
struct block_scales {
  __m256 scale[2][2]; ///< [group][half]; with has_scales only
  __m256 mins[2][2];  ///< [group][half]

  [[gnu::always_inline]] inline block_scales(const std::byte* meta, const __m256 (&m)[2]) {
    for (std::uint32_t h = 0; h < 2; ++h) {
      mins[0][h] = mins[1][h] = m[h];
      if constexpr (!F.has_scales) continue;
      for (std::uint32_t g = 0; g < F.groups; ++g) {
        const std::byte* const at = meta + g * tile_rows + h * half_rows;
        scale[g][h] = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(load8(at)));
        if constexpr (F.has_mins) {
          const __m256i min = _mm256_cvtepu8_epi32(load8(at + F.groups * tile_rows));
          mins[g][h] = _mm256_mul_ps(m[h], _mm256_cvtepi32_ps(min));
        }
      }
    }
  }
};

/// Sum over the columns of group Group of code * q, for N rows of x. The sums start with the negative of what
/// the offset of the codes will add.
template <packed_format F, std::uint32_t N, std::uint32_t Group>
[[gnu::always_inline]] inline void dot_group(const std::byte* codes, const activation_block* x,
                                             __m256i (&sums)[2][N]) {
  constexpr std::uint32_t lines = 8 / F.groups;
  unrolled<N>([&](auto r) __attribute__((always_inline)) {
    const std::int32_t* const sum = F.groups == 1 ? &x[r()].sum : &x[r()].sums[Group];
    const __m256i start =
        excess<F> == 0 ? _mm256_setzero_si256()
                       : _mm256_sub_epi32(_mm256_setzero_si256(),
                                          _mm256_slli_epi32(broadcast4(sum), std::countr_zero(excess<F>)));
    sums[0][r()] = sums[1][r()] = start;
  });
  unrolled<lines>([&](auto index) __attribute__((always_inline)) {
    constexpr std::uint32_t g = Group * lines + index();
    const __m256i w[2] = {excess_codes<F, g>(codes), excess_codes<F, g>(codes + line_bytes / 2)};
    unrolled<N>([&](auto r) __attribute__((always_inline)) {
      const __m256i q = broadcast4(x[r()].q.data() + 4 * g);
      for (std::uint32_t h = 0; h < 2; ++h) {
        sums[h][r()] = add_products(sums[h][r()], w[h], q);
        keep_order(sums[h][r()]);
      }
    });
  });
}

/// Integers stay below 2^24, so floats represent them exactly.
struct avx_vnni_step {
  using integers = __m256;
  template <packed_format F>
  using scales = block_scales<F>;

  template <packed_format F, std::uint32_t N>
  [[gnu::always_inline]] static inline void dot(const std::byte* codes, const activation_block* x,
                                                const block_scales<F>& scales, __m256 (&j)[2][N]) {
    unrolled<F.groups>([&](auto group) __attribute__((always_inline)) {
      __m256i sums[2][N];
      dot_group<F, N, group()>(codes, x, sums);
      unrolled<N>([&](auto r) __attribute__((always_inline)) {
        for (std::uint32_t h = 0; h < 2; ++h) {
          const __m256 sum = as_float(sums[h][r()]);
          if constexpr (!F.has_scales)
            j[h][r()] = sum;
          else if constexpr (group() == 0)
            j[h][r()] = _mm256_mul_ps(sum, scales.scale[0][h]);
          else
            j[h][r()] = _mm256_fmadd_ps(sum, scales.scale[group()][h], j[h][r()]);
        }
      });
    });
  }
};

struct avx_vnni_level {
  template <tensor_type Type, std::uint32_t N>
  static void quantised(const tile_part& part, const activation_block* panel, float* out) {
    multiply_tile<avx_vnni_step, Type, N>(part, panel, out);
  }
};

} // namespace

const matmul_kernels& avx_vnni_matmul_kernels() {
  static const matmul_kernels kernels = [] {
    matmul_kernels made = avx2_matmul_kernels();
    made.quantised = &quantised_table<avx_vnni_level>;
    return made;
  }();
  return kernels;
}

} // namespace paceline::cpu
