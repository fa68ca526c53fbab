#pragma once

#include "gpu/kernels/add_splits.cuh"
#include "gpu/kernels/expert_params.hpp"
#include "gpu/kernels/intrinsics.cuh"

// Kernels that run before and after the products of a mixture of experts (gpu/kernels/expert_params.hpp):
// inputs are multiplied by the weights of their experts, and the outputs of a row's experts are added.

namespace paceline::gpu::PACELINE_KERNEL_SPACE {

PACELINE_KERNEL weigh_rows(weigh_rows_params p) {
  begin_in_turn();
  const std::uint32_t i = own_place().index_in_row(), pair = block_y();
  if (i >= p.width) return;
  p.out[std::size_t{pair} * p.width + i] = p.x[pair / p.num_used * p.x_stride + i] * p.used[pair].weight;
}

PACELINE_KERNEL add_experts(add_experts_params p) {
  begin_in_turn();
  const std::uint32_t n = own_place().index_in_row(), row = block_y();
  if (n >= p.num_outputs) return;
  const split_sums sums{p.partial, p.num_splits, p.num_rows * p.num_used, p.num_outputs};
  float y = 0;
  for (std::uint32_t s = 0; s < p.num_used; ++s) {
    const std::uint32_t pair = row * p.num_used + s;
    const float sum = sums.of(pair, n);
    const float weighed = p.used != nullptr ? p.used[pair].weight * sum : sum;
    y = s == 0 ? weighed : y + weighed;
  }
  float& out = p.out[row * p.out_stride + n];
  out = p.add ? out + y : y;
}

} // namespace paceline::gpu::PACELINE_KERNEL_SPACE
