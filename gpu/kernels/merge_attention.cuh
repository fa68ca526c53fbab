#pragma once

#include "gpu/kernels/split_attention.cuh"

// Merges the splits of a row in ascending order, as defined in gpu/kernels/split_attention_params.hpp.

namespace paceline::gpu::PACELINE_KERNEL_SPACE {

/// One head of one row: `begin` and `end` are its splits, counted from the launch's first split.
struct head_merge {
  const merge_attention_params& p;
  grid_place block;
  std::uint32_t begin, end;

  PACELINE_DEVICE std::size_t entry(std::uint32_t split) const {
    return (std::size_t{split} * p.range.num_rows + block.y) * p.num_heads + block.x;
  }
};

PACELINE_DEVICE float max_of_splits(const head_merge& head, merge_memory& shared) {
  float max = -std::numeric_limits<float>::infinity();
  for (std::uint32_t split = head.begin + thread_index(); split < head.end; split += merge_threads)
    max = std::fmax(max, head.p.from.maxima[head.entry(split)]);
  max = largest_of_warp(max);
  if (lane_index() == 0) shared.warp_max[warp_index()] = max;
  sync_block();
  for (std::uint32_t w = 0; w < merge_threads / warp_size; ++w) max = std::fmax(max, shared.warp_max[w]);
  return max;
}

PACELINE_DEVICE void do_block(const merge_attention_params& p, grid_place block) {
  constexpr std::uint32_t dimensions = device::max_head_dim / merge_threads; // of a thread
  merge_memory& shared = *shared_memory<merge_memory>();
  const device::batch_entry row = p.rows[p.range.first_row + block.y];
  const head_merge head{p, block, first_seen(row, p.window) / kv_split - p.range.first_split,
                        row.position.value / kv_split + 1 - p.range.first_split};
  const float max = max_of_splits(head, shared);
  float sum = 0;
  float acc[dimensions] = {};
  for (std::uint32_t begin = head.begin; begin < head.end; begin += merge_threads) {
    const std::uint32_t rest = head.end - begin, num = rest < merge_threads ? rest : merge_threads;
    if (thread_index() < num) {
      const std::size_t own = head.entry(begin + thread_index());
      shared.weights[thread_index()] = device::exp_reference(p.from.maxima[own] - max);
      shared.sums[thread_index()] = p.from.sums[own];
    }
    sync_block();
    for (std::uint32_t i = 0; i < num; ++i) {
      const float weight = shared.weights[i];
      const float* const values = p.from.values + head.entry(begin + i) * p.head_dim;
      sum = std::fma(shared.sums[i], weight, sum);
      PACELINE_UNROLL
      for (std::uint32_t k = 0; k < dimensions; ++k)
        if (const std::uint32_t d = thread_index() + k * merge_threads; d < p.head_dim)
          acc[k] = std::fma(values[d], weight, acc[k]);
    }
    sync_block();
  }
  float* const out = p.out + (p.range.first_row + block.y) * p.out_stride + std::size_t{block.x} * p.head_dim;
  PACELINE_UNROLL
  for (std::uint32_t k = 0; k < dimensions; ++k)
    if (const std::uint32_t d = thread_index() + k * merge_threads; d < p.head_dim) out[d] = acc[k] / sum;
}
PACELINE_KERNEL merge_attention(merge_attention_params p) {
  begin_in_turn();
  do_block(p, own_place());
}

} // namespace paceline::gpu::PACELINE_KERNEL_SPACE
