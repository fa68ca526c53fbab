#pragma once

#include "gpu/kernels/activation.cuh"
#include "gpu/kernels/dialect.cuh"
#include "gpu/kernels/streamed_params.hpp"

// How a warp of a streamed product (gpu/kernels/streamed_matmul.cuh) stores its sums.

namespace paceline::gpu::PACELINE_KERNEL_SPACE {

/// A lane's sums of a strip's products. Element [j][i] is for row lane / 4 + 8 (i / 2) of the strip and row
/// 8 j + 2 (lane % 4) + i % 2 of x.
template <std::uint32_t NumTiles>
using strip_sums = float[NumTiles][4];

/// The sums of a warp, in the shared memory where its weights were. Each row of x has the sums of one strip,
/// then the sums of the other. The distance between rows (`stream_sums_row`) avoids bank conflicts.
struct sums_of_warp {
  float* sums;

  template <std::uint32_t NumTiles>
  PACELINE_DEVICE void put(std::uint32_t s, const float (&multipliers)[2],
                           const strip_sums<NumTiles>& acc) const {
    float* const own = sums + lane_index() % 4 * 2 * stream_sums_row + s * strip_rows + lane_index() / 4;
    PACELINE_UNROLL
    for (std::uint32_t j = 0; j < NumTiles; ++j) {
      PACELINE_UNROLL
      for (std::uint32_t i = 0; i < 4; ++i)
        own[(j * token_tile + i % 2) * stream_sums_row + i / 2 * 8] = acc[j][i] * (1.0F / multipliers[i / 2]);
    }
  }
  PACELINE_DEVICE float at(std::uint32_t row, std::uint32_t number) const {
    return sums[row * stream_sums_row + number];
  }
};

/// Index of a split's sum among the partial sums of one matrix.
PACELINE_DEVICE std::size_t partial_place(const streamed_params& p, std::uint32_t split, std::uint32_t row,
                                          std::uint32_t n) {
  return (std::size_t{split} * p.num_rows + row) * p.weights.num_rows + n;
}

/// Stores the sums of two strips; each lane has one output. Loops keep the code short, because every
/// launch reads its instructions from memory.
PACELINE_DEVICE void store_sums(const streamed_params& p, std::uint32_t split, std::uint32_t first_strip,
                                const sums_of_warp& from) {
  static_assert(stream_strips * strip_rows == warp_size);
  const std::uint32_t n = first_strip * strip_rows + lane_index();
  if (n >= p.weights.num_rows) return;
  if (p.partial != nullptr) {
    float* const to = p.partial + partial_place(p, split, 0, n);
    for (std::uint32_t row = 0; row < p.num_rows; ++row)
      to[std::size_t{row} * p.weights.num_rows] = from.at(row, lane_index()) * p.x.scales[row];
    return;
  }
  const float bias = p.bias != nullptr ? p.bias[n] : 0.0F;
  for (std::uint32_t row = 0; row < p.num_rows; ++row) {
    float* const y = p.y + row * p.y_stride + n;
    float sum = from.at(row, lane_index()) * p.x.scales[row];
    if (p.bias != nullptr) sum = sum + bias;
    *y = p.add ? *y + sum : sum;
  }
}

/// Stores the sums of a strip of the gate and of the same strip of `up`.
PACELINE_DEVICE void store_gated_sums(const streamed_params& p, std::uint32_t split, std::uint32_t strip,
                                      const sums_of_warp& from) {
  const std::uint32_t in_strip = lane_index() % strip_rows, n = strip * strip_rows + in_strip;
  const bool is_up = lane_index() >= strip_rows;
  if (n >= p.weights.num_rows) return;
  if (p.partial != nullptr) {
    const std::size_t of_gate = std::size_t{p.num_splits} * p.num_rows * p.weights.num_rows;
    float* const to = p.partial + partial_place(p, split, 0, n) + (is_up ? of_gate : 0);
    for (std::uint32_t row = 0; row < p.num_rows; ++row)
      to[std::size_t{row} * p.weights.num_rows] = from.at(row, lane_index()) * p.x.scales[row];
    return;
  }
  PACELINE_ROLL
  for (std::uint32_t row = is_up ? 1 : 0; row < p.num_rows; row += 2) {
    const float scale = p.x.scales[row];
    p.y[row * p.y_stride + n] =
        activate(p.act, from.at(row, in_strip) * scale) * (from.at(row, strip_rows + in_strip) * scale);
  }
}

} // namespace paceline::gpu::PACELINE_KERNEL_SPACE
