#pragma once

#include "runtime/device/tensor_type.hpp"

#include <bit>
#include <cstddef>
#include <cstdint>

// Weights in the order in which tensor cores use them, so that matmul reads them from beginning to end, once.
//
// 16 rows are a *strip*. A strip is cut into *tiles* of 64 columns, of which a warp reads each in whole 16
// byte words, a lane next to a lane: what lane l of the warp feeds to its tensor core lies in "its" words.
// Tiles follow one another along the strip, strips along the matrix. One tile, or four where scales belong to
// 256 columns (a *span*), are preceded by a header with the scales. Rows and columns beyond the matrix are
// zeros.
//
// Codes of a tile, as planes of unsigned codes (for 4 bits a plane of 512 bytes; for 5 and 6 bits that and a
// plane of the upper bits; for 8 bits two planes of 512 bytes; for 16 bits four, of values):
//
// clang-format off
//     plane   words of lane l   where pair i of step `step` lies; j = 4 step + i
//     low     4                 word `step`, bits 4 i and 16 + 4 i
//     1 bit   1                 bits j and 16 + j
//     2 bits  2                 word j / 8, bits 2 (j % 8) and 16 + 2 (j % 8)
//     8 bits  4                 plane step / 2, word 2 (step % 2) + i / 2, bits 8 (i % 2) and 16 + 8 (i % 2)
//     16      4                 plane `step`, word i
// clang-format on
//
// Headers: Q4_0, Q5_0, Q8_0: d of both blocks of 32 columns a row. Q4_1: (d, m) of both. Q4_K, Q5_K: (d, m) a
// row; then for each quarter of the span 16 bits a row, then 8 bits a row: scale, minimum, scale, minimum of
// 6 bits each. Q6_K: d a row, then for each quarter 4 scales of 8 bits a row. F8_E4M3: the float32 scale of
// the tile's 64 columns a row. F16, BF16: none; BF16 has multipliers of rows elsewhere.

namespace paceline::gpu {

inline constexpr std::uint32_t strip_rows = 16;
inline constexpr std::uint32_t tile_cols = 64;
inline constexpr std::uint32_t tile_steps = 4; ///< of 16 columns: products of a tensor core
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
  /// True if a scale is an integer whose product with a code is exact in float16, times a number of the span.
  constexpr bool scales_codes() const { return has_mins && tiles_of_span != 1; }
  constexpr std::uint32_t tile_bytes() const { return strip_rows * tile_cols / 8 * code_bits; }
  constexpr std::uint32_t span_bytes() const { return header_bytes + tiles_of_span * tile_bytes(); }
  constexpr std::uint32_t span_cols() const { return tiles_of_span * tile_cols; }
  /// Slots for the headers that a warp has in flight: those of the spans of its stages, rounded up to a power
  /// of two if it differs from the number of stages, so that a slot is easy to find.
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

/// Location of a code in a tile: the lane whose words hold it, and the pair and step in it.
struct code_place {
  std::uint32_t lane;
  std::uint32_t step;
  std::uint32_t pair;
  std::uint32_t half; ///< 0: the lower one
};

/// For row `row` < 16 and column `col` < 64 of a tile: as the operand A of mma.m16n8k16 lies in registers.
constexpr code_place place_in_tile(std::uint32_t row, std::uint32_t col) {
  return {row % 8 * 4 + col % 8 / 2, col / 16, row / 8 + col % 16 / 8 * 2, col % 2};
}

/// The row and the column of a code of a tile.
constexpr std::uint32_t row_in_tile(const code_place& at) { return at.lane / 4 + at.pair % 2 * 8; }
constexpr std::uint32_t col_in_tile(const code_place& at) {
  return at.step * 16 + at.pair / 2 * 8 + at.lane % 4 * 2 + at.half;
}

/// A matrix in this order.
struct streamed_weights {
  const std::byte* bytes = nullptr;
  /// Powers of two, one for each row of all strips, that bring values into float16's range: for BF16, and in
  /// fast mode for all types except F16. Otherwise null.
  const float* multipliers = nullptr;
  std::size_t strip_bytes = 0;
  device::tensor_type type = device::tensor_type::f16;
  std::uint32_t num_rows = 0;
  std::uint32_t num_cols = 0;

  constexpr std::uint32_t num_strips() const { return (num_rows + strip_rows - 1) / strip_rows; }
};

} // namespace paceline::gpu
