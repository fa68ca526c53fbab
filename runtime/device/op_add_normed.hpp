#pragma once

#include <cstddef>
#include <cstdint>

namespace paceline::device {

/// The residual connection of families that norm what they add:
///
///     hidden += rms_norm(x, weight)
///
/// To the bit what `rms_norm` (op_rms_norm.hpp, one part a row) and `add` (op_elementwise.hpp) give one after
/// the other, which is also what a device does that has nothing better.
struct add_normed_args {
  float* x = nullptr; ///< [num_rows][width]: of unspecified contents afterwards
  std::size_t x_stride = 0;
  float* hidden = nullptr; ///< [num_rows][width]
  std::size_t hidden_stride = 0;
  const float* weight = nullptr; ///< [width]
  std::uint32_t num_rows = 0;
  std::uint32_t width = 0;
  float epsilon = 0;
};

} // namespace paceline::device
