#pragma once

#include "gpu/kernels/add_splits.cuh"
#include "gpu/kernels/kv_kernels.cuh"
#include "gpu/kernels/norm.cuh"
#include "gpu/kernels/row_kernels.cuh"

// The part of op qkv (runtime/device/op_qkv.hpp) that follows the products, in one kernel. A warp keeps its
// head of a row in shared memory, from the addition of the partial sums until the head is written to its
// destination.

namespace paceline::gpu::PACELINE_KERNEL_SPACE {

/// The head on which a warp works, and its index among the heads of its kind (query, key or value).
struct head_at_hand {
  head_products from;
  std::uint32_t number;
  bool is_query, is_value;
};

PACELINE_DEVICE head_at_hand head_of(const finish_heads_params& p, std::uint32_t head) {
  if (head < p.q.num_heads) return {p.q, head, true, false};
  head -= p.q.num_heads;
  if (head < p.k.num_heads) return {p.k, head, false, false};
  return {p.v, head - p.k.num_heads, false, true};
}

/// Writes the product's sums of one head to `x`.
PACELINE_DEVICE void add_up_head(const finish_heads_params& p, const head_at_hand& head, std::uint32_t row,
                                 float* x) {
  const std::uint32_t head_dim = p.layer.head_dim;
  const split_sums sums{head.from.partial, head.from.num_splits, p.num_rows, head.from.num_heads * head_dim};
  constexpr std::uint32_t outputs = 4;
  const std::uint32_t begin = head.number * head_dim;
  PACELINE_ROLL
  for (std::uint32_t first = lane_index(); first < head_dim; first += outputs * warp_size) {
    float sum[outputs] = {};
    sums.add_up<4>(row, begin + first, warp_size, begin + head_dim, sum);
    PACELINE_UNROLL
    for (std::uint32_t i = 0; i < outputs; ++i) {
      const std::uint32_t d = first + i * warp_size;
      if (d < head_dim) x[d] = head.from.bias != nullptr ? sum[i] + head.from.bias[begin + d] : sum[i];
    }
  }
  sync_warp();
}

PACELINE_DEVICE void norm_head(const finish_heads_params& p, const float* weight, float* x) {
  const float scale = norm_scale(x, p.layer.head_dim, p.epsilon); // returns when all lanes have read x
  for (std::uint32_t d = lane_index(); d < p.layer.head_dim; d += warp_size)
    x[d] = (x[d] * scale) * weight[d];
  sync_warp();
}

PACELINE_DEVICE void rotate_head(const finish_heads_params& p, const float* table, std::uint32_t row,
                                 float* x) {
  const float* const angles = table + std::size_t{row} * 2 * p.num_pairs;
  for (std::uint32_t i = lane_index(); i < p.num_pairs; i += warp_size)
    rotate_pair(x, i, p.num_pairs, p.layout, angles);
  sync_warp();
}

PACELINE_DEVICE void do_block(const finish_heads_params& p, grid_place block) {
  const std::uint32_t number = block.x * heads_of_block + warp_index();
  if (number >= p.q.num_heads + p.k.num_heads + p.v.num_heads) return; // the whole warp returns
  const head_at_hand head = head_of(p, number);
  float* const x = shared_memory<float>() + warp_index() * p.layer.head_dim;
  add_up_head(p, head, block.y, x);
  if (head.from.norm != nullptr) norm_head(p, head.from.norm, x);
  if (!head.is_value) rotate_head(p, head.is_query ? p.query_table : p.table, block.y, x);
  if (head.is_query) {
    float* const out = p.out + block.y * p.out_stride + std::size_t{head.number} * p.layer.head_dim;
    for (std::uint32_t d = lane_index(); d < p.layer.head_dim; d += warp_size) out[d] = x[d];
    return;
  }
  const device::batch_entry row = p.batch.rows[block.y];
  const cell_place at = place_of(p.batch, row.sequence, row.slot, p.layer.block_size);
  if (head.is_value)
    store_values(p.layer, at, head.number, x);
  else
    store_keys(p.layer, at, head.number, x);
}
PACELINE_KERNEL finish_heads(finish_heads_params p) {
  begin_in_turn();
  do_block(p, own_place());
}

} // namespace paceline::gpu::PACELINE_KERNEL_SPACE
