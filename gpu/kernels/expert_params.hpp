#pragma once

#include "gpu/kernels/streamed_params.hpp"
#include "runtime/device/expert_routing.hpp"

#include <cstddef>
#include <cstdint>

namespace paceline::gpu {

// Parameters of the kernels of a mixture of experts (runtime/device/op_expert_mixture.hpp). A *pair* is a row
// and one of the experts selected for it; its index is row * num_used + slot. A *segment* is a group of pairs
// of one expert; a thread block reads weights once for all of them. Which experts the pairs use is known on
// the device only, so grids have room for every possibility, and blocks without work end at once.

/// Distances from a matrix of a set to the next one.
struct matrix_strides {
  std::size_t bytes = 0;
  std::size_t multipliers = 0; ///< values
};

/// One warp a row; grid (1, rows). Shared memory: `route_shared_bytes`.
struct route_rows_params {
  const float* logits; ///< [num_rows][by.num_experts]
  device::expert_routing by;
  device::used_expert* used; ///< [num_rows][by.num_used]
};

/// Bytes of shared memory for the arrays of `route_memory` (gpu/kernels/route_rows.cuh).
constexpr std::uint32_t route_shared_bytes(const device::expert_routing& by) {
  const std::uint32_t values = 3 * by.num_experts + 2 * by.num_groups;
  return static_cast<std::uint32_t>((values + device::max_used_experts) * sizeof(float));
}

/// The pairs of some rows, sorted by expert.
struct expert_pairs {
  const device::used_expert* used; ///< [num_pairs]
  const std::uint32_t* order;      ///< [num_pairs]: the pairs of expert 0, then of expert 1 and so on; null
                                   ///< for a single row, whose pairs all have different experts
  const std::uint32_t* counts;     ///< [num_experts]: pairs of each expert; null like `order`
  std::uint32_t num_pairs;
  std::uint32_t num_experts;
};

/// Warps of a block of sort_pairs.
inline constexpr std::uint32_t sort_warps = 4;

/// One warp an expert; grid (experts / sort_warps, 1).
struct sort_pairs_params {
  const device::used_expert* used;
  std::uint32_t num_pairs;
  std::uint32_t num_experts;
  std::uint32_t* order;
  std::uint32_t* counts;
};

/// The inputs of all pairs, each times its weight. One thread a value; grid (values of a row, pairs).
struct weigh_rows_params {
  const float* x;
  std::size_t x_stride;
  const device::used_expert* used;
  std::uint32_t num_used;
  std::uint32_t width;
  float* out; ///< [num_pairs][width]
};

/// Largest number of pairs in a segment of a streamed product. More would need more registers than there are,
/// because each lane also keeps the places of its rows.
inline constexpr std::uint32_t expert_rows = 32;

/// The product of every pair with a matrix of its expert. The matrices are in streaming order
/// (gpu/kernels/streamed_layout.hpp), and a warp multiplies two strips. Or a gated product
/// (runtime/device/op_gated_matmul.hpp): a warp multiplies one strip of the gate and one of `up`. A block has
/// one segment; grid (strips / 8 or strips / 4, segments * num_blocks).
struct expert_stream_params {
  streamed_weights weights; ///< of expert 0
  streamed_weights up;      ///< of expert 0, same type and shape; without bytes if the product is not gated
  matrix_strides strides;
  matrix_strides up_strides;
  device::activation act;
  arranged_rows x;
  std::uint32_t pairs_of_row; ///< pair i has row i / pairs_of_row of x
  expert_pairs pairs;
  std::uint32_t num_tiles;      ///< in a strip
  std::uint32_t tiles_of_split; ///< as in streamed_params
  std::uint32_t num_splits;
  /// Blocks among which a segment's splits are divided: 1 (this block then adds the splits up itself) or
  /// `num_splits`.
  std::uint32_t num_blocks;
  float* partial; ///< [num_splits][num_pairs][weights.num_rows], then the same for `up`, to be added up by
                  ///< another kernel; used if there are several blocks
  float* y;       ///< [num_pairs][weights.num_rows]; used if `num_blocks` is 1
  float* y_up;    ///< like `y`: the sums of `up` while they are not complete
  std::size_t y_stride;
};

/// The product of every pair with a matrix of its expert, for matrices that are not in streaming order.
/// Quantised weights: one warp for each output; grid (outputs / matmul_warps, segments of matmul_chains /
/// num_planes pairs). Other weights: grid (outputs / float_outputs, segments of float_rows pairs).
struct expert_matmul_params {
  weight_rows weights; ///< of expert 0
  matrix_strides strides;
  std::uint32_t num_planes;
  quantised_rows quantised; ///< x, for quantised weights
  const float* x;           ///< for other weights
  std::size_t x_stride;
  std::uint32_t pairs_of_row;
  expert_pairs pairs;
  float* y; ///< [num_pairs][weights.num_rows]
  std::size_t y_stride;
};

/// Adds up the splits of each pair's output, and the outputs of a row's pairs in the order of slots. One
/// thread an output; grid (outputs, rows).
struct add_experts_params {
  const float* partial; ///< [num_splits][num_rows * num_used][num_outputs]
  std::uint32_t num_splits;
  std::uint32_t num_rows;
  std::uint32_t num_used;
  std::uint32_t num_outputs;
  const device::used_expert* used; ///< the pairs' weights; null: all are 1
  float* out;
  std::size_t out_stride;
  bool add;
};

/// Upper bound of the number of segments if a segment has at most `most` pairs.
constexpr std::uint32_t most_segments(std::uint32_t num_pairs, std::uint32_t num_experts,
                                      std::uint32_t most) {
  const std::uint32_t begun = num_pairs < num_experts ? num_pairs : num_experts;
  const std::uint32_t bound = num_pairs / most + begun;
  return bound < num_pairs ? bound : num_pairs;
}

} // namespace paceline::gpu
