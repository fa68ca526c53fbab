#pragma once

#include "gpu/kernels/dialect.cuh"
#include "gpu/kernels/intrinsics.cuh"
#include "gpu/kernels/norm.cuh"
#include "gpu/kernels/reduce_warp.cuh"
#include "gpu/kernels/sixteen_bit.hpp"
#include "gpu/kernels/streamed_params.hpp"

#include <bit>

// Arranges 16-bit activations in the order of the tensor cores' operands (gpu/kernels/sixteen_bit.hpp).

namespace paceline::gpu::PACELINE_KERNEL_SPACE {

/// A row, unchanged or normed.
struct row_values {
  const float* x;    ///< in device or shared memory
  const float* norm; ///< weights, or null
  float scale;       ///< of the norm

  PACELINE_DEVICE float operator[](std::uint32_t k) const {
    return norm != nullptr ? (x[k] * scale) * norm[k] : x[k];
  }
};

/// The largest magnitude of the row, in all threads of the block; not finite if a value is not finite. All
/// blocks of a row get the same result. Magnitudes are compared as bits: NaN is the largest.
PACELINE_DEVICE float largest_of_row(const row_values& row, std::uint32_t num_cols) {
  const auto larger = [](float of, float other) {
    const std::uint32_t magnitude = std::bit_cast<std::uint32_t>(other) & 0x7fffffffU;
    return std::bit_cast<std::uint32_t>(of) < magnitude ? std::bit_cast<float>(magnitude) : of;
  };
  float largest = 0;
  constexpr std::uint32_t at_a_time = 16; // loads under way together
  for (std::uint32_t first = thread_index(); first < num_cols; first += at_a_time * arrange_threads) {
    float values[at_a_time];
    PACELINE_UNROLL
    for (std::uint32_t i = 0; i < at_a_time; ++i) {
      const std::uint32_t k = first + i * arrange_threads;
      values[i] = k < num_cols ? row[k] : 0.0F;
    }
    PACELINE_UNROLL
    for (std::uint32_t i = 0; i < at_a_time; ++i) largest = larger(largest, values[i]);
  }
  largest = reduce_warp<warp_size / 2>(largest, larger);
  auto* const of_warps = shared_memory<float>();
  if (lane_index() == 0) of_warps[warp_index()] = largest;
  sync_block();
  for (std::uint32_t w = 0; w < arrange_warps; ++w) largest = larger(largest, of_warps[w]);
  return largest;
}

/// Returns 8 values of a row: those that lane `lane` < 4 has in the unit of 32 columns that begins at column
/// `first`. Sets `sum_of_unit` to the sum of all values of the unit. Columns from `end` on are zeros. All
/// lanes of the warp call it.
PACELINE_DEVICE quad arrange_lane(const row_values& row, std::uint32_t first, std::uint32_t end,
                                  std::uint32_t lane, float multiplier, float& sum_of_unit) {
  quad out{};
  float sum = 0;
  PACELINE_UNROLL
  for (std::uint32_t i = 0; i < 4; ++i) {
    const std::uint32_t k = first + i * 8 + lane * 2;
    const float low = k < end ? row[k] * multiplier : 0.0F;
    const float high = k + 1 < end ? row[k + 1] * multiplier : 0.0F;
    out.words[i] = halves_of(low, high);
    sum = sum + float_of_half(out.words[i]);
    sum = sum + float_of_half(out.words[i] >> 16);
  }
  sum = sum + shuffle_xor(sum, 1);
  sum_of_unit = sum + shuffle_xor(sum, 2);
  return out;
}

/// Writes `sum`, the sum of unit `unit` of row `row`, as two float16: the rounded sum, and 2^11 times the
/// remainder. The factor brings the remainder into the range of float16.
PACELINE_DEVICE void write_sum_halves(const arranged_rows& out, std::uint32_t unit, std::uint32_t row,
                                      float sum) {
  const std::uint32_t nearest = halves_of(sum, 0) & 0xffffU;
  const std::uint32_t rest = halves_of((sum - float_of_half(nearest)) * 0x1p11F, 0) & 0xffffU;
  const std::size_t tile = std::size_t{unit / units_of_span} * out.num_tiles + row / token_tile;
  const std::uint32_t lane = row % token_tile * 4 + unit % units_of_span / 2;
  auto* const words = reinterpret_cast<std::uint16_t*>(out.sum_halves + (tile * 32 + lane) * 8);
  words[unit % 2] = static_cast<std::uint16_t>(nearest);
  words[2 + unit % 2] = static_cast<std::uint16_t>(rest);
}

/// Copies a row, which every warp of the block will read several times, to shared memory.
PACELINE_DEVICE const float* bring_row(const float* x, std::uint32_t num_cols) {
  float* const here = shared_memory<float>() + arrange_warps;
  constexpr std::uint32_t of_copy = 4; // values
  if (reinterpret_cast<std::uintptr_t>(x) % 16 == 0 && num_cols % of_copy == 0) {
    for (std::uint32_t k = thread_index() * of_copy; k < num_cols; k += arrange_threads * of_copy)
      begin_copy(reinterpret_cast<std::byte*>(here + k), reinterpret_cast<const std::byte*>(x + k));
    end_copy_group();
    wait_for_copies<0>();
  } else {
    for (std::uint32_t k = thread_index(); k < num_cols; k += arrange_threads) here[k] = x[k];
  }
  sync_block();
  return here;
}

PACELINE_DEVICE void do_block(const arrange_rows_params& p, grid_place block) {
  const std::uint32_t number = block.y;
  row_values row{p.x + number * p.x_stride, p.norm, 1};
  // Each warp computes the norm itself, which is quicker than computing it once and sharing it.
  if (p.norm != nullptr) {
    if (p.num_cols <= most_cols_brought) row.x = bring_row(row.x, p.num_cols);
    row.scale = norm_scale(row.x, p.num_cols, p.epsilon);
  }
  const float multiplier = multiplier_to_f16(largest_of_row(row, p.num_cols));
  const bool is_finite = multiplier == multiplier;
  if (block.index_in_row() == 0) p.out.scales[number] = 1.0F / multiplier;
  const std::uint32_t unit = block.index_in_row() / 4, lane = block.index_in_row() % 4;
  if (unit >= p.out.num_units) return; // the whole warp: 8 divides num_units
  float sum = 0;
  const quad values = arrange_lane(row, unit * unit_cols, is_finite ? p.num_cols : 0, lane, multiplier, sum);
  const std::size_t tile = std::size_t{unit} * p.out.num_tiles + number / token_tile;
  *reinterpret_cast<quad*>(p.out.halves + tile * 512 + number % token_tile * 64 + lane * 16) = values;
  if (lane != 0) return;
  p.out.sums[tile * token_tile + number % token_tile] = sum;
  write_sum_halves(p.out, unit, number, sum * sum_multiplier);
}
PACELINE_KERNEL arrange_rows(arrange_rows_params p) {
  begin_in_turn();
  do_block(p, own_place());
}

} // namespace paceline::gpu::PACELINE_KERNEL_SPACE
