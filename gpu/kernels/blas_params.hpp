#pragma once

#include "gpu/kernels/params.hpp"

// Kernels before and after the products of cuBLASLt in fast mode (gpu/blas_products.hpp). Before: the
// conversion of weights and activations to float16. After: multiplication by powers of two, bias and
// residual.

namespace paceline::gpu {

/// Threads of a block that converts weights to float16, with one warp for each tile. The shared memory of a
/// warp holds the tile, with rows padded by 16 bytes.
inline constexpr std::uint32_t halve_threads = 128;
inline constexpr std::uint32_t halved_row_bytes = tile_cols * 2 + 16;
inline constexpr std::uint32_t halved_tile_bytes = strip_rows * halved_row_bytes;

/// Converts strips of a matrix to rows of float16 and multiplies each row by its multiplier. One warp for
/// each tile; grid in blocks (tiles of a strip / 4, strips).
struct halve_weights_params {
  streamed_weights from;     ///< all strips
  std::uint32_t first_strip; ///< the first strip to convert
  std::uint32_t num_tiles;   ///< in a strip
  std::byte* out;            ///< [16 * strips][64 * num_tiles] float16
};

/// Multiplies each row of activations by its `multiplier_to_f16` and rounds it to float16. One block of
/// `arrange_threads` for each row; grid (1, rows).
struct halve_rows_params {
  const float* x;
  std::size_t x_stride;
  std::uint32_t num_cols;
  std::uint32_t stride; ///< values in a row of `out`, an even number; those after the last column are 0
  std::byte* out;       ///< [rows][stride] float16
  float* scales;        ///< [rows]: x = scale * float16 value; NaN for a row with a non-finite value
};

/// Turns the sums of float16 products into the requested products. One thread for each output of a row; grid
/// in blocks (outputs / threads, rows).
struct finish_products_params {
  const float* sums; ///< [rows][stride]
  std::size_t stride;
  const float* multipliers; ///< [num_outputs], of the rows of weights; may be null
  const float* scales;      ///< [rows]
  std::uint32_t num_outputs;
  float* y;
  std::size_t y_stride;
  const float* bias; ///< may be null
  bool add;
};

} // namespace paceline::gpu
