#pragma once

#include <cstddef>
#include <cstdint>

namespace paceline::device {

/// The residual connection of families that norm what they add, and the norm that comes next:
///
///     hidden += rms_norm(x, post_weight)        y = rms_norm(hidden, weight)
///
/// To the bit what `rms_norm` (op_rms_norm.hpp, one part a row), `add` (op_elementwise.hpp) and `rms_norm`
/// give one after the other, which is also what a device does that has nothing better.
struct residual_norm_args {
  float* x = nullptr; ///< [num_rows][width]: of unspecified contents afterwards
  std::size_t x_stride = 0;
  float* hidden = nullptr; ///< [num_rows][width]
  std::size_t hidden_stride = 0;
  float* y = nullptr; ///< [num_rows][width]; may be `x`, with the same stride
  std::size_t y_stride = 0;
  const float* post_weight = nullptr; ///< [width]
  const float* weight = nullptr;      ///< [width]; none: no norm comes next, and y is not written
  std::uint32_t num_rows = 0;
  std::uint32_t width = 0;
  float epsilon = 0;
};

} // namespace paceline::device
