#pragma once

#include "runtime/device/matrix.hpp"
#include "runtime/device/op_glu.hpp"
#include "runtime/device/op_rms_norm.hpp"

#include <cstddef>
#include <cstdint>

namespace paceline::device {

/// The first half of a gated feed-forward layer: out = act(x * gate^T) * (x * up^T), x normed first where
/// there is a norm. To the bit what `rms_norm` (op_rms_norm.hpp), `matmul` of both matrices (op_matmul.hpp)
/// and `glu` of the products (op_glu.hpp) give one after the other, which is also what a device does that has
/// nothing better. One that has need not write normed rows and products to memory.
struct gated_matmul_args {
  const float* x = nullptr; ///< [num_rows][num_cols], rows `x_stride` values apart
  std::size_t x_stride = 0;
  std::uint32_t num_rows = 0;
  std::uint32_t num_cols = 0;
  input_norm norm;
  bool two_planes = false;      ///< as in op_matmul.hpp
  const matrix* gate = nullptr; ///< [N][num_cols]
  const matrix* up = nullptr;   ///< likewise
  float* products = nullptr; ///< [num_rows][2 N], for what lies between: of unspecified contents afterwards
  float* out =
      nullptr; ///< [num_rows][N], rows `out_stride` values apart; may be `products`, with rows 2 N apart
  std::size_t out_stride = 0;
  activation act = activation::silu;
};

} // namespace paceline::device
