#pragma once

#include "gpu/kernels/activation.cuh"
#include "gpu/kernels/intrinsics.cuh"
#include "gpu/kernels/streamed_params.hpp"

// Adds up the partial sums of streamed products (gpu/kernels/streamed_matmul.cuh).

namespace paceline::gpu::PACELINE_KERNEL_SPACE {

/// The partial sums of a product.
struct split_sums {
  const float* partial; ///< [num_splits][num_rows][num_outputs]
  std::uint32_t num_splits, num_rows, num_outputs;

  PACELINE_DEVICE float at(std::uint32_t split, std::uint32_t row, std::uint32_t n) const {
    return partial[(std::size_t{split} * num_rows + row) * num_outputs + n];
  }
  /// The sum in ascending order of splits.
  PACELINE_DEVICE float of(std::uint32_t row, std::uint32_t n) const {
    constexpr std::uint32_t at_a_time = 8; // loads under way together
    float sum = at(0, row, n);
    PACELINE_ROLL
    for (std::uint32_t first = 1; first < num_splits; first += at_a_time) {
      float values[at_a_time];
      PACELINE_UNROLL
      for (std::uint32_t i = 0; i < at_a_time; ++i)
        values[i] = first + i < num_splits ? at(first + i, row, n) : 0.0F;
      PACELINE_UNROLL
      for (std::uint32_t i = 0; i < at_a_time; ++i)
        if (first + i < num_splits) sum = sum + values[i];
    }
    return sum;
  }
};

PACELINE_DEVICE void do_block(const add_splits_params& p, grid_place block) {
  const std::uint32_t n = block.index_in_row();
  if (n >= p.num_outputs) return;
  float sum = split_sums{p.partial, p.num_splits, p.num_rows, p.num_outputs}.of(block.y, n);
  float* const y = p.y + block.y * p.y_stride + n;
  if (p.partial_up != nullptr) {
    *y = activate(p.act, sum) *
         split_sums{p.partial_up, p.num_splits, p.num_rows, p.num_outputs}.of(block.y, n);
    return;
  }
  if (p.bias != nullptr) sum = sum + p.bias[n];
  *y = p.add ? *y + sum : sum;
}
PACELINE_KERNEL add_splits(add_splits_params p) {
  begin_in_turn();
  do_block(p, own_place());
}

} // namespace paceline::gpu::PACELINE_KERNEL_SPACE
