#pragma once

#include <cstddef>
#include <cstdint>

namespace paceline::device {

/// Root-mean-square normalisation of `num_parts` adjacent vectors of `width` values in each row (one part for
/// a layer's norm, one for each head for QK norm):
///
///     scale = 1 / sqrt(sum(x[i]^2) / width + epsilon)        y[i] = (x[i] * scale) * weight[i]
///
/// Roundings (float32): the sum has 16 lanes; lane l adds x[i]^2 by fused multiply-add for i = l, l+16, ...
/// in that order. Lanes are added in halves (l and l+8, l and l+4, l and l+2, l and l+1). The division, the
/// addition of epsilon, the square root, the reciprocal and the two products are rounded once each. `y` may
/// be equal to `x`.
struct rms_norm_args {
  const float* x = nullptr; ///< [num_rows][num_parts * width], rows `x_stride` values apart
  std::size_t x_stride = 0;
  float* y = nullptr; ///< like `x`, rows `y_stride` values apart
  std::size_t y_stride = 0;
  const float* weight = nullptr; ///< [width]
  std::uint32_t num_rows = 0;
  std::uint32_t num_parts = 1;
  std::uint32_t width = 0;
  float epsilon = 0;
};

/// A norm of a product's input rows, one part for each row, applied as part of the product's op.
struct input_norm {
  const float* weight = nullptr; ///< [num_cols]; null: no norm
  float epsilon = 0;
  float* normed = nullptr; ///< [num_rows][num_cols], scratch: contents are unspecified afterwards
};

} // namespace paceline::device
