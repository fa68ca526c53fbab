#pragma once

#include "gpu/kernels/intrinsics.cuh"
#include "gpu/kernels/kv_cell.cuh"
#include "gpu/kernels/reduce_warp.cuh"

#include <bit>
#include <cmath>

namespace paceline::gpu::PACELINE_KERNEL_SPACE {

/// How the values of one head are converted to codes.
struct code_scale {
  float scale;   ///< stored with the codes
  float inverse; ///< factor of the values; 0: all codes are 0
};

PACELINE_DEVICE code_scale code_scale_of(const float* x, std::uint32_t head_dim) {
  float largest = 0;
  float spoilt = 0; // 1 in a lane with a non-finite value
  for (std::uint32_t d = lane_index(); d < head_dim; d += warp_size) {
    if (!std::isfinite(x[d])) spoilt = 1;
    largest = std::fmax(largest, std::fabs(x[d]));
  }
  largest = largest_of_warp(largest);
  spoilt = largest_of_warp(spoilt);
  if (spoilt != 0) return {std::bit_cast<float>(0x7fc00000U), 0.0F};
  if (largest < 0x1p-100F) return {0.0F, 0.0F};
  return {largest / 127.0F, 127.0F / largest};
}

/// Writes the values `x` of head `head` to one cell of `values`; `index_of` gives the index of each
/// dimension. Done by a warp.
template <class Index>
PACELINE_DEVICE void store_head(const device::kv_layer& layer, cell_place at, std::uint32_t head,
                                const float* x, void* values, float* scales, const Index& index_of) {
  const bool coded = layer.type == kv_type::q8;
  code_scale of{};
  if (coded) {
    of = code_scale_of(x, layer.head_dim);
    if (lane_index() == 0) scales[layer.scale_index(at.block, head, at.cell)] = of.scale;
  }
  for (std::uint32_t d = lane_index(); d < layer.head_dim; d += warp_size) {
    const float code = of.inverse == 0 ? 0.0F : std::nearbyint(x[d] * of.inverse);
    store_value(values, layer.type, index_of(d), coded ? code : x[d]);
  }
}

PACELINE_DEVICE void store_keys(const device::kv_layer& layer, cell_place at, std::uint32_t head,
                                const float* x) {
  store_head(layer, at, head, x, layer.keys, layer.key_scales,
             [&](std::uint32_t d) { return layer.key_index(at.block, head, at.cell, d); });
}
PACELINE_DEVICE void store_values(const device::kv_layer& layer, cell_place at, std::uint32_t head,
                                  const float* x) {
  store_head(layer, at, head, x, layer.values, layer.value_scales,
             [&](std::uint32_t d) { return layer.value_index(at.block, head, at.cell, d); });
}

PACELINE_DEVICE void do_block(const kv_write_params& p, grid_place block) {
  const device::batch_entry row = p.batch.rows[block.y];
  const cell_place at = place_of(p.batch, row.sequence, row.slot, p.layer.block_size);
  const std::size_t from = block.y * p.stride + std::size_t{block.x} * p.layer.head_dim;
  store_keys(p.layer, at, block.x, p.keys + from);
  store_values(p.layer, at, block.x, p.values + from);
}
PACELINE_KERNEL kv_write(kv_write_params p) {
  begin_in_turn();
  do_block(p, own_place());
}

/// Moves `count` values that are `step` apart, as if through a buffer.
template <class T>
PACELINE_DEVICE void move_values(T* to, const T* from, std::uint32_t count, std::size_t step) {
  const bool backwards = to > from;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::size_t at = (backwards ? count - 1 - i : i) * step;
    to[at] = from[at];
  }
}

/// Copies dimension `d` of head `head`: keys, values and, for dimension 0, scales.
template <class T>
PACELINE_DEVICE void copy_values_of(const device::kv_layer& into, const device::kv_layer& of,
                                    const device::kv_copy& copy, std::uint32_t head, std::uint32_t d) {
  move_values(static_cast<T*>(into.keys) + into.key_index(copy.to_block, head, copy.to_offset, d),
              static_cast<const T*>(of.keys) + of.key_index(copy.from_block, head, copy.from_offset, d),
              copy.num_cells, 1);
  move_values(static_cast<T*>(into.values) + into.value_index(copy.to_block, head, copy.to_offset, d),
              static_cast<const T*>(of.values) + of.value_index(copy.from_block, head, copy.from_offset, d),
              copy.num_cells, into.head_dim);
  if (d != 0 || into.type != kv_type::q8) return;
  const std::size_t to = into.scale_index(copy.to_block, head, copy.to_offset);
  const std::size_t from = of.scale_index(copy.from_block, head, copy.from_offset);
  move_values<float>(into.key_scales + to, of.key_scales + from, copy.num_cells, 1);
  move_values<float>(into.value_scales + to, of.value_scales + from, copy.num_cells, 1);
}

/// The same for any type of cells.
PACELINE_DEVICE void copy_dimension(const device::kv_layer& into, const device::kv_layer& of,
                                    const device::kv_copy& copy, std::uint32_t head, std::uint32_t d) {
  if (into.type == kv_type::f32)
    copy_values_of<std::uint32_t>(into, of, copy, head, d);
  else if (into.type == kv_type::q8)
    copy_values_of<std::uint8_t>(into, of, copy, head, d);
  else
    copy_values_of<std::uint16_t>(into, of, copy, head, d);
}

/// A thread copies one dimension of all cells, so that no two threads access the same values.
PACELINE_KERNEL kv_copy(kv_copy_params p) {
  begin_in_turn();
  const std::uint32_t i = own_place().index_in_row();
  if (i >= p.layer.num_heads * p.layer.head_dim) return;
  const std::uint32_t head = i / p.layer.head_dim, d = i % p.layer.head_dim;
  const device::kv_copy* const copies = p.copies + block_y() * p.num_copies;
  for (std::uint32_t c = 0; c < p.num_copies; ++c) copy_dimension(p.layer, p.from, copies[c], head, d);
}

} // namespace paceline::gpu::PACELINE_KERNEL_SPACE
