#pragma once

#include <cstddef>
#include <cstdint>

namespace paceline::device {

/// The residual connection of model families that apply a norm to the added values:
///
///     hidden += rms_norm(x, weight)
///
/// The result has the same bits as that of `rms_norm` (op_rms_norm.hpp, one part for each row) followed by
/// `add` (op_elementwise.hpp). These two ops are also the default implementation.
struct add_normed_args {
  float* x = nullptr; ///< [num_rows][width]; contents are unspecified afterwards
  std::size_t x_stride = 0;
  float* hidden = nullptr; ///< [num_rows][width]
  std::size_t hidden_stride = 0;
  const float* weight = nullptr; ///< [width]
  std::uint32_t num_rows = 0;
  std::uint32_t width = 0;
  float epsilon = 0;
};

} // namespace paceline::device
