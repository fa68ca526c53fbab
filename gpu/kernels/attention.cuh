#pragma once

#include "gpu/kernels/kv_cell.cuh"
#include "gpu/kernels/reduce_warp.cuh"
#include "gpu/kernels/row_kernels.cuh"
#include "runtime/device/op_attention.hpp"
#include "runtime/device/scalar_math.hpp"

#include <cmath>
#include <limits>

// Attention as defined in runtime/device/op_attention.hpp. A block computes one query head of one row, split
// by split. Its threads divide the positions for the scores and the dimensions for the values, so that each
// score, and each sum of weighted values, is computed by one thread, in order.

namespace paceline::gpu::PACELINE_KERNEL_SPACE {

/// Largest number of dimensions that one thread sums.
inline constexpr std::uint32_t dimensions_of_thread = device::max_head_dim / attention_threads;

/// One row and head.
struct head_attention {
  const attention_params& p;
  device::batch_entry row;
  std::uint32_t kv_head;
  const float* query;

  /// The cell of position `j` as the row sees it.
  PACELINE_DEVICE cell_place place(std::uint32_t j) const {
    const std::uint32_t linear = row.position.value + 1 - row.path_length;
    const kv_slot slot = j < linear ? kv_slot{j} : p.batch.paths[row.path_begin + (j - linear)];
    return place_of(p.batch, row.sequence, slot, p.layer.block_size);
  }

  PACELINE_DEVICE float score(std::uint32_t j) const {
    const device::kv_layer& layer = p.layer;
    const cell_place at = place(j);
    float dot = 0;
    for (std::uint32_t d = 0; d < layer.head_dim; ++d)
      dot =
          std::fma(query[d],
                   stored_value(layer.keys, layer.type, layer.key_index(at.block, kv_head, at.cell, d)), dot);
    if (layer.type == kv_type::q8)
      dot = dot * layer.key_scales[layer.scale_index(at.block, kv_head, at.cell)];
    dot = dot * p.scale;
    if (p.soft_cap != 0) dot = p.soft_cap * device::tanh_reference(dot * (1.0F / p.soft_cap));
    return dot;
  }
};

/// Writes the scores of positions [begin, end) to shared memory; returns the largest.
PACELINE_DEVICE float score_split(const head_attention& head, std::uint32_t begin, std::uint32_t end,
                                  split_memory& shared) {
  float max = -std::numeric_limits<float>::infinity();
  for (std::uint32_t j = begin + thread_index(); j < end; j += attention_threads) {
    const float score = head.score(j);
    shared.scores[j - begin] = score;
    max = std::fmax(max, score);
  }
  max = largest_of_warp(max);
  if (lane_index() == 0) shared.warp_max[warp_index()] = max;
  sync_block();
  for (std::uint32_t w = 0; w < attention_threads / warp_size; ++w) max = std::fmax(max, shared.warp_max[w]);
  return max;
}

/// Turns the scores into probabilities, and leaves their sum in `shared.sum`.
PACELINE_DEVICE void weigh_split(const head_attention& head, std::uint32_t begin, std::uint32_t end,
                                 float max, split_memory& shared) {
  const device::kv_layer& layer = head.p.layer;
  for (std::uint32_t j = begin + thread_index(); j < end; j += attention_threads) {
    const float probability = device::exp_reference(shared.scores[j - begin] - max);
    shared.scores[j - begin] = probability;
    float weight = probability;
    if (layer.type == kv_type::q8) {
      const cell_place at = head.place(j);
      weight = weight * layer.value_scales[layer.scale_index(at.block, head.kv_head, at.cell)];
    }
    shared.weights[j - begin] = weight;
  }
  sync_block();
  if (warp_index() != 0) return;
  // Sums the positions congruent to lane_index() modulo 16. The upper half of the warp computes the same.
  float sum = 0;
  const std::uint32_t skipped = (lane_index() + 16 - begin % 16) % 16;
  for (std::uint32_t i = skipped; i < end - begin; i += 16) sum = sum + shared.scores[i];
  sum = add_lanes<16>(sum);
  if (lane_index() == 0) shared.sum = sum;
}

/// One thread's part of the merged result so far: its own dimensions.
struct running_attention {
  float max;
  float sum;
  float acc[dimensions_of_thread];
};

/// Adds the weighted values of the split, in order of position.
PACELINE_DEVICE void add_values(const head_attention& head, std::uint32_t begin, std::uint32_t end,
                                const split_memory& shared, float (&acc)[dimensions_of_thread]) {
  const device::kv_layer& layer = head.p.layer;
  for (std::uint32_t i = 0; i < dimensions_of_thread; ++i) acc[i] = 0;
  for (std::uint32_t j = begin; j < end; ++j) {
    const cell_place at = head.place(j);
    const float weight = shared.weights[j - begin];
    for (std::uint32_t i = 0; i < dimensions_of_thread; ++i) {
      const std::uint32_t d = thread_index() + i * attention_threads;
      if (d >= layer.head_dim) break;
      const std::size_t index = layer.value_index(at.block, head.kv_head, at.cell, d);
      acc[i] = std::fma(weight, stored_value(layer.values, layer.type, index), acc[i]);
    }
  }
}

PACELINE_DEVICE void merge(running_attention& into, const running_attention& split) {
  const float max = std::fmax(into.max, split.max);
  const float a = device::exp_reference(into.max - max), b = device::exp_reference(split.max - max);
  into.sum = std::fma(into.sum, a, split.sum * b);
  for (std::uint32_t i = 0; i < dimensions_of_thread; ++i)
    into.acc[i] = std::fma(into.acc[i], a, split.acc[i] * b);
  into.max = max;
}

PACELINE_KERNEL attention(attention_params p) {
  begin_in_turn();
  split_memory& shared = *shared_memory<split_memory>();
  const std::uint32_t head_dim = p.layer.head_dim;
  const head_attention head{p, p.batch.rows[block_y()], block_x() / (p.num_heads / p.layer.num_heads),
                            p.queries + block_y() * p.query_stride + std::size_t{block_x()} * head_dim};
  const std::uint32_t end = head.row.position.value + 1;
  const std::uint32_t first_seen = p.window == 0 || end <= p.window ? 0 : end - p.window;
  running_attention total{};
  for (std::uint32_t begin = first_seen; begin < end;) {
    const std::uint32_t next = (begin / device::attention_split + 1) * device::attention_split;
    const std::uint32_t split_end = next < end ? next : end;
    running_attention split{};
    split.max = score_split(head, begin, split_end, shared);
    weigh_split(head, begin, split_end, split.max, shared);
    add_values(head, begin, split_end, shared, split.acc);
    sync_block();
    split.sum = shared.sum;
    if (begin == first_seen)
      total = split;
    else
      merge(total, split);
    begin = next; // the next split overwrites only what was read before the last barrier
  }
  float* const out = p.out + block_y() * p.out_stride + std::size_t{block_x()} * head_dim;
  for (std::uint32_t i = 0; i < dimensions_of_thread; ++i)
    if (const std::uint32_t d = thread_index() + i * attention_threads; d < head_dim)
      out[d] = total.acc[i] / total.sum;
}

} // namespace paceline::gpu::PACELINE_KERNEL_SPACE
