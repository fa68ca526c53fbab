#pragma once

#include "runtime/device/tensor_type.hpp"

#include <bit>
#include <cstddef>
#include <cstdint>

// Weights in the order in which tensor cores use them, so that matmul reads memory sequentially and once.
//
// 16 rows are a *strip*. A strip is divided into *tiles* of 64 columns. A warp reads a tile in words of 16
// bytes, adjacent words by adjacent lanes. The words that lane l reads contain the codes that lane l passes
// to the tensor core. Tiles are stored in the order of the columns, strips in the order of the rows. A *span*
// is one tile, or four tiles in formats whose scales belong to 256 columns. A span begins with a header that
// has its scales. Rows and columns beyond the matrix are zeros.
//
// The codes of a tile are unsigned and stored in planes. 4 bits: one plane of 512 bytes. 5 and 6 bits: this
// plane and one of the upper bits. 8 bits: two planes of 512 bytes. 16 bits: four such planes, of values.
// The table says where a lane's codes lie. A *step* is 16 columns, so a tile has four steps. In each step a
// lane has four *pairs* of codes (`place_in_tile`).
//
// clang-format off
//     plane   words of lane l   where pair i of step `step` lies; j = 4 step + i
//     low     4                 word `step`, bits 4 i and 16 + 4 i
//     1 bit   1                 bits j and 16 + j
//     2 bits  2                 word j / 8, bits 2 (j % 8) and 16 + 2 (j % 8)
//     8 bits  4                 plane step / 2, word 2 (step % 2) + i / 2, bits 8 (i % 2) and 16 + 8 (i % 2)
//     16 bits 4                 plane `step`, word i
// clang-format on
//
// Headers. Each entry is stored for all 16 rows before the next entry. Q4_0, Q5_0, Q8_0: d of both blocks of
// 32 columns. Q4_1: (d, m) of both blocks. Q4_K, Q5_K: (d, m); then 16 bits for each quarter (tile) of the
// span; then 8 more bits for each quarter. The 24 bits are scale and minimum of the quarter's first 32
// columns, then of its second, with 6 bits each. Q6_K: d; then for each quarter 4 scales of 8 bits. F8_E4M3:
// the float32 scale of the tile's 64 columns. F16, BF16: no header; BF16 has multipliers of rows elsewhere
// (`streamed_weights::multipliers`).

namespace paceline::gpu {

inline constexpr std::uint32_t strip_rows = 16;
inline constexpr std::uint32_t tile_cols = 64;
/// Steps of 16 columns in a tile. One instruction of the tensor core does a step.
inline constexpr std::uint32_t tile_steps = 4;
/// Granularity in which a matmul's columns are divided among blocks, for every format.
inline constexpr std::uint32_t split_cols = 256;
inline constexpr std::uint32_t tiles_of_split_unit = split_cols / tile_cols;

struct streamed_layout {
  std::uint32_t code_bits = 0; ///< 4, 5, 6, 8 or 16; 0: a format that is not streamed
  std::uint32_t offset = 0;    ///< code = stored - offset
  std::uint32_t header_bytes = 0;
  std::uint32_t tiles_of_span = 1;
  std::uint32_t group_cols = 32; ///< columns whose products are summed before they are multiplied by a scale
  bool has_mins = false;
  std::uint32_t stages = 0; ///< tiles that a warp has in flight

  constexpr bool is_streamed() const { return code_bits != 0; }
  /// True if a scale is an integer times a number of the span (Q4_K, Q5_K). The product of the integer and a
  /// code is exact in float16.
  constexpr bool scales_codes() const { return has_mins && tiles_of_span != 1; }
  constexpr std::uint32_t tile_bytes() const { return strip_rows * tile_cols / 8 * code_bits; }
  constexpr std::uint32_t span_bytes() const { return header_bytes + tiles_of_span * tile_bytes(); }
  constexpr std::uint32_t span_cols() const { return tiles_of_span * tile_cols; }
  /// Slots for the headers that a warp has in flight: one for each stage if a span is one tile; otherwise one
  /// for each span that the stages may touch, rounded up to a power of two.
  constexpr std::uint32_t header_slots() const {
    return tiles_of_span == 1 ? stages : std::bit_ceil((stages + tiles_of_span - 2) / tiles_of_span + 1);
  }
  /// Shared memory for the part of a strip that a warp has in flight.
  constexpr std::uint32_t slot_bytes() const { return header_slots() * header_bytes + stages * tile_bytes(); }
};

constexpr streamed_layout streamed_layout_of(device::tensor_type type) {
  using device::tensor_type;
  switch (type) {
  case tensor_type::q4_0:
    return {4, 8, 64, 1, 32, false, 8};
  case tensor_type::q4_1:
    return {4, 0, 128, 1, 32, true, 8};
  case tensor_type::q5_0:
    return {5, 16, 64, 1, 32, false, 7};
  case tensor_type::q8_0:
    return {8, 128, 64, 1, 32, false, 5};
  case tensor_type::f8_e4m3:
    return {8, 0, 64, 1, 32, false, 5};
  case tensor_type::q4_k:
    return {4, 0, 256, 4, 32, true, 8};
  case tensor_type::q5_k:
    return {5, 0, 256, 4, 32, true, 8};
  case tensor_type::q6_k:
    return {6, 32, 288, 4, 16, false, 6};
  case tensor_type::f16:
  case tensor_type::bf16:
    return {16, 0, 0, 1, 0, false, 3};
  default:
    return {};
  }
}

/// Location of a code in a tile: the lane whose words contain it, and its step, pair and half (see the table
/// above).
struct code_place {
  std::uint32_t lane;
  std::uint32_t step;
  std::uint32_t pair;
  std::uint32_t half; ///< 0: the lower one
};

/// The location of row `row` < 16 and column `col` < 64 of a tile. It follows the places of the elements of
/// operand A of mma.m16n8k16 in registers (gpu/kernels/intrinsics.cuh).
constexpr code_place place_in_tile(std::uint32_t row, std::uint32_t col) {
  return {row % 8 * 4 + col % 8 / 2, col / 16, row / 8 + col % 16 / 8 * 2, col % 2};
}

/// The row and the column of a code of a tile.
constexpr std::uint32_t row_in_tile(const code_place& at) { return at.lane / 4 + at.pair % 2 * 8; }
constexpr std::uint32_t col_in_tile(const code_place& at) {
  return at.step * 16 + at.pair / 2 * 8 + at.lane % 4 * 2 + at.half;
}

/// A matrix in the order of this file.
struct streamed_weights {
  const std::byte* bytes = nullptr;
  /// Powers of two that bring values into float16's range, one for each row of all strips. For BF16, and in
  /// fast mode for all types except F16; otherwise null.
  const float* multipliers = nullptr;
  std::size_t strip_bytes = 0;
  device::tensor_type type = device::tensor_type::f16;
  std::uint32_t num_rows = 0;
  std::uint32_t num_cols = 0;

  constexpr std::uint32_t num_strips() const { return (num_rows + strip_rows - 1) / strip_rows; }
};

} // namespace paceline::gpu
