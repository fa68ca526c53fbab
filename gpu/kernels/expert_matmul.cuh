#pragma once

#include "gpu/kernels/expert_segments.cuh"
#include "gpu/kernels/matmul.cuh"

// Products of a mixture of experts with weights that are not streamed. They are computed by the functions of
// gpu/kernels/matmul.cuh; a block has pairs of one expert.

namespace paceline::gpu::PACELINE_KERNEL_SPACE {

/// The rows of x that belong to a segment's pairs.
struct rows_of_pairs {
  const expert_pairs& pairs;
  std::uint32_t first; ///< index in `expert_pairs::order`
  std::uint32_t pairs_of_row;
  PACELINE_DEVICE std::uint32_t operator[](std::uint32_t i) const {
    return pair_at(pairs, first + i) / pairs_of_row;
  }
};

PACELINE_DEVICE weight_rows weights_of(const expert_matmul_params& p, std::uint32_t expert) {
  weight_rows out = p.weights;
  out.bytes += expert * p.strides.bytes;
  return out;
}

PACELINE_DEVICE void store_pair(const expert_matmul_params& p, std::uint32_t place, std::uint32_t n,
                                float sum) {
  p.y[pair_at(p.pairs, place) * p.y_stride + n] = sum;
}

PACELINE_KERNEL expert_quantised(expert_matmul_params p) {
  begin_in_turn();
  const expert_segment segment = segment_at(p.pairs, block_y(), matmul_chains / p.num_planes);
  const std::uint32_t n = block_x() * matmul_warps + warp_index();
  if (segment.count == 0 || n >= p.weights.num_rows) return; // the whole warp returns
  multiply_quantised(weights_of(p, segment.expert), p.quantised, p.num_planes, n,
                     rows_of_pairs{p.pairs, segment.first, p.pairs_of_row}, segment.count,
                     [&](std::uint32_t r, float sum) { store_pair(p, segment.first + r, n, sum); });
}

PACELINE_KERNEL expert_float(expert_matmul_params p) {
  begin_in_turn();
  const expert_segment segment = segment_at(p.pairs, block_y(), float_rows);
  if (segment.count == 0) return; // the whole block returns: all its warps find the same segment
  multiply_floats(
      weights_of(p, segment.expert), p.x, p.x_stride, block_x() * float_outputs,
      rows_of_pairs{p.pairs, segment.first, p.pairs_of_row}, segment.count,
      [&](std::uint32_t r, std::uint32_t n, float sum) { store_pair(p, segment.first + r, n, sum); });
}

} // namespace paceline::gpu::PACELINE_KERNEL_SPACE
