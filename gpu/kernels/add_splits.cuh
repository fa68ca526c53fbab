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
  /// Computes the sums of a row's outputs n, n + step, ... before `end`, each in ascending order of splits.
  /// The loads of `AtATime` splits, for all these outputs, are in flight together.
  template <std::uint32_t AtATime, std::uint32_t Outputs>
  PACELINE_DEVICE void add_up(std::uint32_t row, std::uint32_t n, std::uint32_t step, std::uint32_t end,
                              float (&sums)[Outputs]) const {
    PACELINE_ROLL
    for (std::uint32_t first = 0; first < num_splits; first += AtATime) {
      float values[AtATime][Outputs];
      PACELINE_UNROLL
      for (std::uint32_t s = 0; s < AtATime; ++s) {
        PACELINE_UNROLL
        for (std::uint32_t i = 0; i < Outputs; ++i)
          values[s][i] =
              first + s < num_splits && n + i * step < end ? at(first + s, row, n + i * step) : 0.0F;
      }
      PACELINE_UNROLL
      for (std::uint32_t s = 0; s < AtATime; ++s) {
        PACELINE_UNROLL
        for (std::uint32_t i = 0; i < Outputs; ++i) {
          if (first + s == 0)
            sums[i] = values[s][i];
          else if (first + s < num_splits)
            sums[i] = sums[i] + values[s][i];
        }
      }
    }
  }
  PACELINE_DEVICE float of(std::uint32_t row, std::uint32_t n) const {
    float sum[1] = {};
    add_up<8>(row, n, 0, n + 1, sum);
    return sum[0];
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
