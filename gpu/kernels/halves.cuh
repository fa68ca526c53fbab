#pragma once

#include "gpu/kernels/arrange_rows.cuh"
#include "gpu/kernels/blas_params.hpp"
#include "gpu/kernels/streamed_format.cuh"

// Kernels before and after the products of cuBLASLt in fast mode (gpu/kernels/sixteen_bit.hpp): they convert
// weights and activations to float16, and turn the sums into results.

namespace paceline::gpu::PACELINE_KERNEL_SPACE {

/// Writes a pair of adjacent values of a tile to the warp's shared memory.
PACELINE_DEVICE void put_halves(std::byte* tile, std::uint32_t step, std::uint32_t pair,
                                std::uint32_t halves) {
  const code_place at{lane_index(), step, pair, 0};
  *reinterpret_cast<std::uint32_t*>(tile + row_in_tile(at) * halved_row_bytes + col_in_tile(at) * 2) = halves;
}

/// Writes a tile of codes as float16: each weight times the power of two of its row.
template <tensor_type Type>
PACELINE_DEVICE void halve_codes(const std::byte* header, const std::byte* codes, std::uint32_t tile,
                                 const float (&multipliers)[2], std::byte* out) {
  constexpr streamed_layout layout = streamed_layout_of(Type);
  quad low{};
  if constexpr (layout.code_bits != 8) low = read_quad(codes + lane_index() * 16);
  PACELINE_UNROLL
  for (std::uint32_t u = 0; u < 2; ++u) {
    const unit_words words = read_unit<Type>(codes, u, low);
    const unit_scales scales[2] = {read_scales<Type>(header, lane_index() / 4, tile % 4, u),
                                   read_scales<Type>(header, lane_index() / 4 + 8, tile % 4, u)};
    PACELINE_UNROLL
    for (std::uint32_t i = 0; i < 8; ++i) {
      const std::uint32_t step = i / 4, pair = i % 4, row = pair % 2;
      const float scale = scales[row].scale[layout.group_cols == 32 ? 0 : step];
      const float min = layout.has_mins ? scales[row].min : 0.0F;
      const std::uint32_t code = codes_as_halves<Type>(words, step, pair);
      put_halves(out, u * 2 + step, pair,
                 halves_of(std::fma(float_of_half(code), scale, min) * multipliers[row],
                           std::fma(float_of_half(code >> 16), scale, min) * multipliers[row]));
    }
  }
}

/// The same for a tile of values: F16 unchanged, BF16 times the power of two of the row.
template <tensor_type Type>
PACELINE_DEVICE void halve_values(const std::byte* values, const float (&multipliers)[2], std::byte* out) {
  PACELINE_UNROLL
  for (std::uint32_t step = 0; step < tile_steps; ++step) {
    const quad words = read_quad(values + step * 512 + lane_index() * 16);
    PACELINE_UNROLL
    for (std::uint32_t pair = 0; pair < 4; ++pair) {
      std::uint32_t both = words.words[pair];
      if constexpr (Type == tensor_type::bf16)
        both = halves_of(std::bit_cast<float>(both << 16) * multipliers[pair % 2],
                         std::bit_cast<float>(both & 0xffff0000U) * multipliers[pair % 2]);
      put_halves(out, step, pair, both);
    }
  }
}

template <tensor_type Type>
PACELINE_DEVICE void halve_tile(const halve_weights_params& p, std::uint32_t strip, std::uint32_t tile,
                                std::byte* out) {
  constexpr streamed_layout layout = streamed_layout_of(Type);
  const std::byte* const span = p.from.bytes + strip * p.from.strip_bytes +
                                std::size_t{tile / layout.tiles_of_span} * layout.span_bytes();
  const std::byte* const codes =
      span + layout.header_bytes + tile % layout.tiles_of_span * layout.tile_bytes();
  float multipliers[2] = {1, 1};
  if (Type != tensor_type::f16) {
    multipliers[0] = p.from.multipliers[strip * strip_rows + lane_index() / 4];
    multipliers[1] = p.from.multipliers[strip * strip_rows + lane_index() / 4 + 8];
  }
  if constexpr (layout.code_bits == 16)
    halve_values<Type>(codes, multipliers, out);
  else
    halve_codes<Type>(span, codes, tile, multipliers, out);
}

PACELINE_DEVICE void halve_tile_of_type(const halve_weights_params& p, std::uint32_t strip,
                                        std::uint32_t tile, std::byte* out) {
  switch (p.from.type) {
  case tensor_type::q4_0:
    return halve_tile<tensor_type::q4_0>(p, strip, tile, out);
  case tensor_type::q4_1:
    return halve_tile<tensor_type::q4_1>(p, strip, tile, out);
  case tensor_type::q4_k:
    return halve_tile<tensor_type::q4_k>(p, strip, tile, out);
  case tensor_type::q5_0:
    return halve_tile<tensor_type::q5_0>(p, strip, tile, out);
  case tensor_type::q5_k:
    return halve_tile<tensor_type::q5_k>(p, strip, tile, out);
  case tensor_type::q6_k:
    return halve_tile<tensor_type::q6_k>(p, strip, tile, out);
  case tensor_type::q8_0:
    return halve_tile<tensor_type::q8_0>(p, strip, tile, out);
  case tensor_type::f8_e4m3:
    return halve_tile<tensor_type::f8_e4m3>(p, strip, tile, out);
  case tensor_type::bf16:
    return halve_tile<tensor_type::bf16>(p, strip, tile, out);
  default:
    return halve_tile<tensor_type::f16>(p, strip, tile, out);
  }
}

/// Uses shared memory so that adjacent lanes write adjacent values of a row.
PACELINE_KERNEL halve_weights(halve_weights_params p) {
  begin_in_turn();
  const std::uint32_t tile = own_place().index_in_row() / warp_size;
  if (tile >= p.num_tiles) return; // the whole warp returns
  std::byte* const there = shared_memory<std::byte>() + warp_index() * halved_tile_bytes;
  halve_tile_of_type(p, p.first_strip + block_y(), tile, there);
  sync_warp();
  const std::size_t row_bytes = std::size_t{p.num_tiles} * tile_cols * 2;
  std::byte* const out = p.out + block_y() * strip_rows * row_bytes + std::size_t{tile} * tile_cols * 2;
  const std::uint32_t part = lane_index() % 8 * 16;
  for (std::uint32_t row = lane_index() / 8; row < strip_rows; row += 4)
    *reinterpret_cast<quad*>(out + row * row_bytes + part) = read_quad(there + row * halved_row_bytes + part);
}

PACELINE_KERNEL halve_rows(halve_rows_params p) {
  begin_in_turn();
  const std::uint32_t row = block_y();
  const float* const x = p.x + row * p.x_stride;
  const float multiplier = multiplier_to_f16(largest_of_row({x, nullptr, 1}, p.num_cols));
  const bool is_finite = multiplier == multiplier;
  if (thread_index() == 0) p.scales[row] = 1.0F / multiplier;
  const auto value = [&](std::uint32_t k) { return is_finite && k < p.num_cols ? x[k] * multiplier : 0.0F; };
  auto* const out = reinterpret_cast<std::uint32_t*>(p.out + std::size_t{row} * p.stride * 2);
  for (std::uint32_t pair = thread_index(); pair < p.stride / 2; pair += num_threads())
    out[pair] = halves_of(value(pair * 2), value(pair * 2 + 1));
}

PACELINE_KERNEL finish_products(finish_products_params p) {
  begin_in_turn();
  const std::uint32_t n = own_place().index_in_row();
  if (n >= p.num_outputs) return;
  const float multiplier = p.multipliers != nullptr ? p.multipliers[n] : 1.0F;
  float sum = (p.sums[block_y() * p.stride + n] * (1.0F / multiplier)) * p.scales[block_y()];
  float* const y = p.y + block_y() * p.y_stride + n;
  if (p.bias != nullptr) sum = sum + p.bias[n];
  *y = p.add ? *y + sum : sum;
}

} // namespace paceline::gpu::PACELINE_KERNEL_SPACE
