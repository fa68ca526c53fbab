#pragma once

#include "gpu/kernels/reduce_warp.cuh"
#include "gpu/kernels/sixteen_bit.hpp"
#include "gpu/kernels/streamed_params.hpp"
#include "gpu/kernels/weight_block.cuh"

#include <cmath>

// Converts weights to the order of gpu/kernels/streamed_layout.hpp when they are loaded, and single rows back
// from this order (embed).

namespace paceline::gpu::PACELINE_KERNEL_SPACE {

inline constexpr float largest_float = 0x1.fffffeP127F;

PACELINE_DEVICE void write_word(std::byte* at, std::uint32_t word) {
  *reinterpret_cast<std::uint32_t*>(at) = word;
}
PACELINE_DEVICE std::uint32_t read_word(const std::byte* at) {
  return *reinterpret_cast<const std::uint32_t*>(at);
}
PACELINE_DEVICE void write_half_word(std::byte* at, std::uint32_t bits) {
  *reinterpret_cast<std::uint16_t*>(at) = static_cast<std::uint16_t>(bits);
}
PACELINE_DEVICE std::uint32_t half_bits(float value) { return device::f16_of_float(value); }

/// Words of a lane's codes in a tile: those of the first plane, then those of the second.
struct lane_words {
  std::uint32_t first[4] = {};
  std::uint32_t second[4] = {};
};

PACELINE_DEVICE void put_code(lane_words& words, std::uint32_t code_bits, const code_place& at,
                              std::uint32_t code) {
  const std::uint32_t j = at.step * 4 + at.pair, half = at.half * 16;
  if (code_bits == 8) {
    std::uint32_t* const plane = at.step < 2 ? words.first : words.second;
    plane[at.step % 2 * 2 + at.pair / 2] |= code << (at.pair % 2 * 8 + half);
    return;
  }
  words.first[at.step] |= (code & 15U) << (at.pair * 4 + half);
  if (code_bits == 5) words.second[0] |= code >> 4 << (j + half);
  if (code_bits == 6) words.second[j / 8] |= code >> 4 << (j % 8 * 2 + half);
}

/// The stored code at `at` of a tile's planes.
PACELINE_DEVICE std::uint32_t get_code(const std::byte* tile, std::uint32_t code_bits, const code_place& at) {
  const std::uint32_t j = at.step * 4 + at.pair, half = at.half * 16;
  const std::byte* const first = tile + at.lane * 16;
  if (code_bits == 8) {
    const std::byte* const word = first + at.step / 2 * 512 + (at.step % 2 * 2 + at.pair / 2) * 4;
    return read_word(word) >> (at.pair % 2 * 8 + half) & 255U;
  }
  const std::uint32_t low = read_word(first + at.step * 4) >> (at.pair * 4 + half) & 15U;
  if (code_bits == 5) return low | (read_word(tile + 512 + at.lane * 4) >> (j + half) & 1U) << 4;
  if (code_bits == 6)
    return low | (read_word(tile + 512 + at.lane * 8 + j / 8 * 4) >> (j % 8 * 2 + half) & 3U) << 4;
  return low;
}

PACELINE_DEVICE std::byte* value_at(std::byte* tile, const code_place& at) {
  return tile + at.step * 512 + at.lane * 16 + at.pair * 4 + at.half * 2;
}

/// Writes the scales and minima of row `row` < 16 of a tile to the header of the tile's span. This row is row
/// `matrix_row` of the matrix.
PACELINE_DEVICE void write_header(const pack_weights_params& p, std::byte* header, std::uint32_t row,
                                  std::uint32_t matrix_row, std::uint32_t tile) {
  if (p.from.type == tensor_type::f8_e4m3) {
    const std::uint32_t k = tile * tile_cols;
    const bool is_inside = matrix_row < p.from.num_rows && k < p.from.num_cols;
    const float scale = is_inside ? f8_scale(f8_block_at(p.from, matrix_row, k)) : 0.0F;
    return write_word(header + row * 4, std::bit_cast<std::uint32_t>(scale));
  }
  weight_block blocks[2];
  for (std::uint32_t u = 0; u < 2; ++u) {
    const std::uint32_t b = tile * 2 + u;
    if (matrix_row < p.from.num_rows && b * 32 < p.from.num_cols) {
      read_block_header(p.from, matrix_row, b, blocks[u]);
    } else {
      blocks[u].d = blocks[u].m = 0;
      for (std::uint32_t g = 0; g < 2; ++g) blocks[u].scales[g] = blocks[u].mins[g] = 0;
    }
  }
  const std::uint32_t quarter = tile % 4;
  switch (p.from.type) {
  case tensor_type::q4_1:
    for (std::uint32_t u = 0; u < 2; ++u)
      write_word(header + row * 8 + u * 4, half_bits(blocks[u].d) | half_bits(blocks[u].m) << 16);
    return;
  case tensor_type::q4_k:
  case tensor_type::q5_k: {
    const auto field = [](std::int32_t value) { return static_cast<std::uint32_t>(value); };
    const std::uint32_t fields = field(blocks[0].scales[0]) | field(blocks[0].mins[0]) << 6 |
                                 field(blocks[1].scales[0]) << 12 | field(blocks[1].mins[0]) << 18;
    if (quarter == 0) write_word(header + row * 4, half_bits(blocks[0].d) | half_bits(blocks[0].m) << 16);
    write_half_word(header + 64 + quarter * 32 + row * 2, fields & 0xffffU);
    header[192 + quarter * 16 + row] = static_cast<std::byte>(fields >> 16);
    return;
  }
  case tensor_type::q6_k: {
    std::uint32_t scales = 0;
    for (std::uint32_t g = 0; g < 4; ++g)
      scales |= (static_cast<std::uint32_t>(blocks[g / 2].scales[g % 2]) & 255U) << (8 * g);
    if (quarter == 0) write_half_word(header + row * 2, half_bits(blocks[0].d));
    write_word(header + 32 + quarter * 64 + row * 4, scales);
    return;
  }
  default: // Q4_0, Q5_0, Q8_0
    write_word(header + row * 4, half_bits(blocks[0].d) | half_bits(blocks[1].d) << 16);
  }
}

PACELINE_KERNEL pack_weights(pack_weights_params p) {
  const streamed_layout layout = streamed_layout_of(p.from.type);
  const std::uint32_t tile = own_place().index_in_row() / warp_size, lane = lane_index();
  if (tile >= p.num_tiles) return;
  std::byte* const span =
      p.to + block_y() * p.strip_bytes + tile / layout.tiles_of_span * layout.span_bytes();
  std::byte* const codes = span + layout.header_bytes + tile % layout.tiles_of_span * layout.tile_bytes();
  lane_words words;
  for (std::uint32_t i = 0; i < 32; ++i) {
    const code_place at{lane, i / 8, i / 2 % 4, i % 2};
    const std::uint32_t row = block_y() * strip_rows + row_in_tile(at),
                        k = tile * tile_cols + col_in_tile(at);
    const bool is_inside = row < p.from.num_rows && k < p.from.num_cols;
    if (layout.code_bits == 16)
      write_half_word(value_at(codes, at), is_inside ? stored_value_bits(p.from, row, k) : 0U);
    else if (is_inside)
      put_code(words, layout.code_bits, at,
               static_cast<std::uint32_t>(stored_code(p.from, row, k)) + layout.offset);
  }
  if (layout.code_bits == 16) return;
  for (std::uint32_t i = 0; i < 4; ++i) write_word(codes + lane * 16 + i * 4, words.first[i]);
  const std::uint32_t num_second = layout.code_bits == 8 ? 4 : layout.code_bits - 4; // words a lane
  for (std::uint32_t i = 0; i < num_second; ++i)
    write_word(codes + 512 + lane * num_second * 4 + i * 4, words.second[i]);
  if (lane < strip_rows) write_header(p, span, lane, block_y() * strip_rows + lane, tile);
}

/// The largest magnitude among the finite values that the lane reads from a row of floating-point numbers.
PACELINE_DEVICE float largest_value(const weight_rows& from, std::uint32_t row) {
  float largest = 0;
  for (std::uint32_t k = lane_index(); k < from.num_cols; k += warp_size) {
    const float magnitude = std::fabs(float_weight(from, row, k));
    if (magnitude > largest && magnitude <= largest_float) largest = magnitude;
  }
  return largest;
}

/// The same for a quantised row.
PACELINE_DEVICE float largest_of_blocks(const weight_rows& from, std::uint32_t row) {
  float largest = 0;
  weight_block block;
  for (std::uint32_t b = lane_index(); b < from.num_cols / 32; b += warp_size) {
    read_weight_block(from, row, b, block);
    for (std::uint32_t i = 0; i < 32; ++i) {
      const std::uint32_t g = i / block.group;
      const float scale = block.d * static_cast<float>(block.scales[g]);
      const float magnitude = std::fabs(
          std::fma(static_cast<float>(block.codes[i]), scale, block.m * static_cast<float>(block.mins[g])));
      if (magnitude > largest && magnitude <= largest_float) largest = magnitude;
    }
  }
  return largest;
}

PACELINE_KERNEL scale_weight_rows(scale_weight_rows_params p) {
  float magnitude = 0;
  if (block_y() < p.from.num_rows)
    magnitude = device::is_floating(p.from.type) ? largest_value(p.from, block_y())
                                                 : largest_of_blocks(p.from, block_y());
  magnitude = largest_of_warp(magnitude);
  if (lane_index() == 0) p.multipliers[block_y()] = multiplier_to_f16(magnitude);
}

/// Reads weights 32 * b .. 32 * b + 31 of row `row` of a quantised matrix.
PACELINE_DEVICE void read_streamed_block(const streamed_weights& weights, std::size_t row, std::uint32_t b,
                                         weight_block& out) {
  const streamed_layout layout = streamed_layout_of(weights.type);
  const std::uint32_t tile = b / 2, u = b % 2, in_strip = static_cast<std::uint32_t>(row % strip_rows);
  const std::byte* const span = weights.bytes + row / strip_rows * weights.strip_bytes +
                                tile / layout.tiles_of_span * layout.span_bytes();
  const std::byte* const codes =
      span + layout.header_bytes + tile % layout.tiles_of_span * layout.tile_bytes();
  out.scales[0] = out.scales[1] = out.mins[0] = out.mins[1] = 1;
  out.m = 0, out.group = layout.group_cols, out.has_mins = layout.has_mins;
  const std::uint32_t quarter = tile % 4;
  switch (weights.type) {
  case tensor_type::q4_1:
    out.d = half_at(span + in_strip * 8 + u * 4), out.m = half_at(span + in_strip * 8 + u * 4 + 2);
    break;
  case tensor_type::q4_k:
  case tensor_type::q5_k: {
    const std::uint32_t fields = word_at(span + 64 + quarter * 32 + in_strip * 2) |
                                 byte_at(span + 192 + quarter * 16 + in_strip) << 16;
    out.d = half_at(span + in_strip * 4), out.m = half_at(span + in_strip * 4 + 2);
    out.scales[0] = static_cast<std::int32_t>(fields >> (12 * u) & 63U);
    out.mins[0] = static_cast<std::int32_t>(fields >> (12 * u + 6) & 63U);
    break;
  }
  case tensor_type::q6_k:
    out.d = half_at(span + in_strip * 2);
    for (std::uint32_t g = 0; g < 2; ++g)
      out.scales[g] = static_cast<std::int8_t>(byte_at(span + 32 + quarter * 64 + in_strip * 4 + 2 * u + g));
    break;
  default:
    out.d = half_at(span + in_strip * 4 + u * 2);
  }
  for (std::uint32_t i = 0; i < 32; ++i)
    out.codes[i] = static_cast<std::int8_t>(
        static_cast<std::int32_t>(get_code(codes, layout.code_bits, place_in_tile(in_strip, u * 32 + i))) -
        static_cast<std::int32_t>(layout.offset));
}

/// Value `k` of row `row` of F16, BF16 or F8_E4M3.
PACELINE_DEVICE float streamed_value(const streamed_weights& weights, std::size_t row, std::uint32_t k) {
  const streamed_layout layout = streamed_layout_of(weights.type);
  const auto in_strip = static_cast<std::uint32_t>(row % strip_rows);
  const code_place at = place_in_tile(in_strip, k % tile_cols);
  const std::byte* const span = weights.bytes + row / strip_rows * weights.strip_bytes +
                                std::size_t{k / tile_cols} * layout.span_bytes();
  const std::byte* const tile = span + layout.header_bytes;
  if (weights.type == tensor_type::f8_e4m3) {
    const auto code = static_cast<std::uint8_t>(get_code(tile, layout.code_bits, at));
    return device::float_of_e4m3(code) * std::bit_cast<float>(read_word(span + in_strip * 4));
  }
  const auto bits =
      static_cast<std::uint16_t>(word_at(tile + at.step * 512 + at.lane * 16 + at.pair * 4 + at.half * 2));
  return weights.type == tensor_type::f16 ? device::float_of_f16(bits) : device::float_of_bf16(bits);
}

} // namespace paceline::gpu::PACELINE_KERNEL_SPACE
