#pragma once

#include "gpu/kernels/params.hpp"

// Kernels around the products of cuBLASLt in fast mode (gpu/blas_products.hpp): before them the conversion of
// weights and activations to 16 bits, after them powers of two, bias and residual.

namespace paceline::gpu {

/// Threads of a block that converts weights to float16, one warp a tile, and a warp's shared memory: the
/// tile, with rows padded by 16 bytes.
inline constexpr std::uint32_t halve_threads = 128;
inline constexpr std::uint32_t halved_row_bytes = tile_cols * 2 + 16;
inline constexpr std::uint32_t halved_tile_bytes = strip_rows * halved_row_bytes;

/// Converts strips of a matrix to rows of float16, times the row's multiplier. One warp a tile; grid (tiles
/// of a strip / 4, strips).
struct halve_weights_params {
  streamed_weights from;     ///< all strips
  std::uint32_t first_strip; ///< the first strip to convert
  std::uint32_t num_tiles;   ///< in a strip
  std::byte* out;            ///< [16 * strips][64 * num_tiles] float16
};

/// Converts activations to rows of float16, times `multiplier_to_f16`. One block of `arrange_threads` a row;
/// grid (1, rows).
struct halve_rows_params {
  const float* x;
  std::size_t x_stride;
  std::uint32_t num_cols;
  std::uint32_t stride; ///< values in a row of `out`, even; zeros behind the last column
  std::byte* out;       ///< [rows][stride] float16
  float* scales;        ///< [rows]: a row is its halves times this; NaN for a row with a non-finite value
};

/// Turns the sums of rows and weights in float16 into the requested products. One thread an output; grid
/// (outputs / threads, rows).
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
