#pragma once

#include "gpu/kernels/dialect.cuh"
#include "gpu/kernels/intrinsics.cuh"
#include "gpu/kernels/sixteen_bit.hpp"
#include "gpu/kernels/streamed_params.hpp"

#include <bit>

// Activations of 16 bits in the order in which tensor cores take them (gpu/kernels/sixteen_bit.hpp).

namespace paceline::gpu::PACELINE_KERNEL_SPACE {

/// The largest magnitude of the row, in all threads of the block; not finite if a value is not. All blocks of
/// a row find the same. Magnitudes are compared as bits: NaN is the largest.
PACELINE_DEVICE float largest_of_row(const float* x, std::uint32_t num_cols) {
  std::uint32_t largest = 0;
  for (std::uint32_t k = thread_index(); k < num_cols; k += arrange_threads) {
    const std::uint32_t magnitude = std::bit_cast<std::uint32_t>(x[k]) & 0x7fffffffU;
    largest = largest < magnitude ? magnitude : largest;
  }
  std::uint32_t* const of_threads = shared_memory<std::uint32_t>();
  of_threads[thread_index()] = largest;
  for (std::uint32_t half = arrange_threads / 2; half > 0; half /= 2) {
    sync_block();
    if (thread_index() >= half) continue;
    const std::uint32_t other = of_threads[thread_index() + half];
    if (other > of_threads[thread_index()]) of_threads[thread_index()] = other;
  }
  sync_block();
  return std::bit_cast<float>(of_threads[0]);
}

/// One unit of one row; `x` has `num_cols` values, and zeros are behind them.
PACELINE_DEVICE void arrange_unit(const float* x, std::uint32_t num_cols, float multiplier, std::byte* halves,
                                  float* sum_of_unit) {
  float sum = 0;
  std::uint32_t words[16];
  for (std::uint32_t k = 0; k < unit_cols; k += 2) {
    const float low = k < num_cols ? x[k] * multiplier : 0.0F;
    const float high = k + 1 < num_cols ? x[k + 1] * multiplier : 0.0F;
    const std::uint32_t pair = halves_of(low, high);
    sum = sum + float_of_half(pair);
    sum = sum + float_of_half(pair >> 16);
    words[k % 8 / 2 * 4 + k / 16 * 2 + k / 8 % 2] = pair; // of lane k % 8 / 2: its step, its half of the step
  }
  for (std::uint32_t i = 0; i < 16; ++i) reinterpret_cast<std::uint32_t*>(halves)[i] = words[i];
  *sum_of_unit = sum;
}

PACELINE_DEVICE void do_block(const arrange_rows_params& p, grid_place block) {
  const std::uint32_t row = block.y;
  const bool is_row = row < p.num_rows;
  const float* const x = p.x + row * p.x_stride;
  const float multiplier = is_row ? multiplier_to_f16(largest_of_row(x, p.num_cols)) : 0.0F;
  const bool is_finite = multiplier == multiplier;
  if (block.index_in_row() == 0) p.out.scales[row] = is_row ? 1.0F / multiplier : 0.0F;
  const std::uint32_t unit = block.index_in_row();
  if (unit >= p.out.num_units) return;
  const std::uint32_t first = unit * unit_cols;
  const std::uint32_t num_cols = is_row && is_finite && first < p.num_cols ? p.num_cols - first : 0;
  const std::size_t tile = std::size_t{unit} * p.out.num_tiles + row / token_tile;
  arrange_unit(x + first, num_cols, multiplier, p.out.halves + tile * 512 + row % token_tile * 64,
               p.out.sums + tile * token_tile + row % token_tile);
}
PACELINE_KERNEL arrange_rows(arrange_rows_params p) {
  begin_in_turn();
  do_block(p, own_place());
}

} // namespace paceline::gpu::PACELINE_KERNEL_SPACE
