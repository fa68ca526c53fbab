#pragma once

#include "gpu/kernels/params.hpp"

// What fast mode has around the products of cuBLASLt (gpu/blas_products.hpp): weights and activations of 16
// bits before, powers of two, bias and residual behind.

namespace paceline::gpu {

/// Threads of a block that makes weights float16, a warp a tile; and what a warp needs of shared memory: the
/// tile, its rows 16 bytes further apart than they are long.
inline constexpr std::uint32_t halve_threads = 128;
inline constexpr std::uint32_t halved_row_bytes = tile_cols * 2 + 16;
inline constexpr std::uint32_t halved_tile_bytes = strip_rows * halved_row_bytes;

/// Strips of a matrix as rows of float16, times the row's multiplier. One warp a tile; grid (tiles of a strip
/// / 4, strips).
struct halve_weights_params {
  streamed_weights from;     ///< of all strips
  std::uint32_t first_strip; ///< of those at hand
  std::uint32_t num_tiles;   ///< of a strip
  std::byte* out;            ///< [16 * strips][64 * num_tiles] float16
};

/// Activations as rows of float16, times `multiplier_to_f16`. One block of `arrange_threads` a row; grid (1,
/// rows).
struct halve_rows_params {
  const float* x;
  std::size_t x_stride;
  std::uint32_t num_cols;
  std::uint32_t stride; ///< values of a row of `out`, even; zeros behind the last column
  std::byte* out;       ///< [rows][stride] float16
  float* scales;        ///< [rows]: a row is its halves times this; NaN for one that is not finite
};

/// Products of rows and weights of float16, to what was asked for. One thread an output; grid (outputs /
/// threads, rows).
struct finish_products_params {
  const float* sums; ///< [rows][stride]
  std::size_t stride;
  const float* multipliers; ///< [num_outputs], of weights; may be null
  const float* scales;      ///< [rows]
  std::uint32_t num_outputs;
  float* y;
  std::size_t y_stride;
  const float* bias; ///< may be null
  bool add;
};

} // namespace paceline::gpu
