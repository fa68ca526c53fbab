#pragma once

#include "runtime/cpu/kernel_level.hpp"
#include "runtime/device/tensor_type.hpp"

#include <array>
#include <cstddef>
#include <cstdint>

namespace paceline::cpu {

/// 32 quantised activations of one row, with everything that the weight formats need from them: one cache
/// line.
struct alignas(64) activation_block {
  std::array<std::int8_t, 32> q;        ///< -127..127
  float d = 0;                          ///< dx of op_matmul.hpp
  float min_factor = 0;                 ///< d * float(sum)
  std::array<float, 2> min_factors{};   ///< d * float(sums[g])
  std::int32_t sum = 0;                 ///< of all q
  std::array<std::int32_t, 2> sums{};   ///< of q of each half
  std::array<std::int16_t, 2> sums16{}; ///< `sums` as 16-bit numbers
};
static_assert(sizeof(activation_block) == 64);

/// Largest number of rows of x in one kernel call.
inline constexpr std::uint32_t max_kernel_rows = 8;

/// Blocks [begin, end) of a quantised tile with `num_blocks` blocks: whole units (packed_layout.hpp).
struct tile_part {
  const std::byte* tile = nullptr;
  std::uint32_t num_blocks = 0;
  std::uint32_t begin = 0, end = 0;
};

/// Adds the products of a part of a tile of weights with n rows of x, where n is fixed for the kernel, to
/// out[row of x][row of the tile], block by block. Calls for consecutive parts, in order, give the same bits
/// as one call for the whole tile. A part at the tile's beginning ignores the previous content of out. The
/// rows of x are interleaved by block: block b of row r is at panel[(b - begin) * n + r].
using quantised_kernel = void (*)(const tile_part& part, const activation_block* panel, float* out);
/// The same for float weights, over a whole tile: column k of row r is at panel[k * n + r].
using float_kernel = void (*)(const std::byte* tile, const float* panel, std::uint32_t num_cols, float* out);
/// Quantises one row of `num_blocks` blocks; block b goes to out[b * stride].
using quantise_kernel = void (*)(const float* x, std::uint32_t num_blocks, activation_block* out,
                                 std::size_t stride);

/// The kernels of one level.
struct matmul_kernels {
  /// Index: rows of x minus one.
  using by_rows = std::array<quantised_kernel, max_kernel_rows>;
  using float_by_rows = std::array<float_kernel, max_kernel_rows>;

  quantise_kernel quantise = nullptr;
  std::uint32_t preferred_rows = max_kernel_rows;              ///< rows of x in a call if there are many
  by_rows (*quantised)(device::tensor_type type) = nullptr;    ///< null pointers for a floating-point type
  float_by_rows (*floats)(device::tensor_type type) = nullptr; ///< null pointers for a quantised one
};

/// Kernels of `level`, which this machine must support.
const matmul_kernels& matmul_kernels_of(kernel_level level);

/// Plain C++ on the packed layout: for machines without AVX2, and to distinguish a wrong kernel from a wrong
/// layout.
const matmul_kernels& scalar_matmul_kernels();
const matmul_kernels& avx2_matmul_kernels();     ///< call only if the CPU has AVX2, FMA and F16C
const matmul_kernels& avx_vnni_matmul_kernels(); ///< call only if the CPU has AVX2, FMA, F16C and AVX-VNNI
const matmul_kernels&
avx512_vnni_matmul_kernels(); ///< call only where the CPU has AVX-512 F, BW, VL, DQ and VNNI

} // namespace paceline::cpu
