#pragma once

#include "runtime/device/matrix.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

namespace paceline::device {

/// One output of a matmul: y = x * weights^T.
struct matmul_output {
  const matrix* weights = nullptr; ///< [N][K]
  float* y = nullptr;              ///< [num_rows][N], rows `y_stride` values apart; must not overlap x
  std::size_t y_stride = 0;
  const float* bias = nullptr; ///< [N] or none
  bool add = false;            ///< y += instead of y =: the residual connection
};

/// Products of the same rows with several matrices of K columns (query, key and value; gate and up) in one
/// call, so that the rows are quantised once and the threads synchronise once.
///
/// **Quantised weights** (every type except F32, F16, BF16, F8_E4M3). A weight is code * scale + min, where
/// the codes and the scales of a group of 16 or 32 columns are those of the format, without rounding: scale =
/// d * sc with the format's d (float16 or 1) and integer sc (or 1). Activations are quantised for each row
/// and block of 32 columns:
///
///     amax = max |x|      dx = amax / 127      q = round_half_even(x * (127 / amax))
///
/// A block with amax < 2^-100 has dx = 0, q = 0. A block with a non-finite value has dx = NaN, q = 0, and the
/// results of its row are NaN. Then, for the blocks in ascending order, starting with acc = 0, in float32:
///
///     j   = sum over the block's groups of sc * (sum of code * q)      exact, as an integer
///     acc = fma(float(j) * d, dx, acc)
///     acc = fma(min, dx * float(sum of q), acc)        with mins: for each group in ascending order
///
/// **F32, F16, BF16, F8_E4M3.** From a0 = a1 = 0, in float32: a0 = fma(w[k], x[k], a0) for even k, a1 for odd
/// k, ascending; acc = a0 + a1. For F8_E4M3, w[k] is code * scale, rounded once.
///
/// With `two_planes` (quantised weights only) the remainder of the quantisation, x - dx * q rounded once, is
/// quantised in the same way with its own scales and multiplied in the same way: acc = the acc of x + the acc
/// of the remainder. This costs twice as much and gives about 15 bits instead of 8. It is meant for rows with
/// blocks in which a few values are much larger than the others.
///
/// Finally y = acc, or y = acc + bias; with `add`, this sum is added to the previous y. Every step is rounded
/// once. So a row's result has the same bits whatever the other rows, threads, chunks and kernel level are.
struct matmul_args {
  const float* x = nullptr; ///< [num_rows][K], rows `x_stride` values apart
  std::size_t x_stride = 0;
  std::uint32_t num_rows = 0;
  std::uint32_t num_cols = 0; ///< K
  bool two_planes = false;    ///< quantise activations as two planes of 8 bits
  std::span<const matmul_output> outputs;
};

} // namespace paceline::device
