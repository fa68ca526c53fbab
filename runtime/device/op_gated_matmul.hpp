#pragma once

#include "runtime/device/matrix.hpp"
#include "runtime/device/op_glu.hpp"
#include "runtime/device/op_rms_norm.hpp"

#include <cstddef>
#include <cstdint>

namespace paceline::device {

/// The first half of a gated feed-forward layer: out = act(x * gate^T) * (x * up^T), where x is first normed
/// if there is a norm. The result has the same bits as that of `rms_norm` (op_rms_norm.hpp), `matmul` with
/// both matrices (op_matmul.hpp) and `glu` (op_glu.hpp) in turn. The default implementation calls these three
/// ops; a fused implementation need not write normed rows and products to memory.
struct gated_matmul_args {
  const float* x = nullptr; ///< [num_rows][num_cols], rows `x_stride` values apart
  std::size_t x_stride = 0;
  std::uint32_t num_rows = 0;
  std::uint32_t num_cols = 0;
  input_norm norm;
  bool two_planes = false;      ///< as in op_matmul.hpp
  const matrix* gate = nullptr; ///< [N][num_cols]
  const matrix* up = nullptr;   ///< likewise
  float* products = nullptr;    ///< [num_rows][2 N], scratch: contents are unspecified afterwards
  /// [num_rows][N], rows `out_stride` values apart; may be `products` with a stride of 2 N.
  float* out = nullptr;
  std::size_t out_stride = 0;
  activation act = activation::silu;
};

} // namespace paceline::device
