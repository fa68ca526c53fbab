#pragma once

#include <cstddef>
#include <cstdint>

namespace paceline::device {

/// y[r][i] += factor * x[r][i], where the factor is `scale` or, with a gate, scale * sigmoid(gate[r]). Both
/// products are rounded before the sum, and the sigmoid is that of op_glu.hpp.
struct add_args {
  float* y = nullptr; ///< [num_rows][width], rows `y_stride` values apart
  std::size_t y_stride = 0;
  const float* x = nullptr; ///< [num_rows][width], rows `x_stride` values apart
  std::size_t x_stride = 0;
  std::uint32_t num_rows = 0;
  std::uint32_t width = 0;
  const float* gate = nullptr; ///< [num_rows], `gate_stride` values apart; null: none
  std::size_t gate_stride = 0;
  float scale = 1;
};

/// y[k][i] = x[rows[k]][i]: collects rows. `y` must not overlap `x`.
struct gather_args {
  float* y = nullptr; ///< [num_rows][width], rows `y_stride` values apart
  std::size_t y_stride = 0;
  const float* x = nullptr; ///< rows of `width` values, `x_stride` values apart
  std::size_t x_stride = 0;
  const std::uint32_t* rows = nullptr; ///< host memory, [num_rows]; null: rows[k] = k
  std::uint32_t num_rows = 0;
  std::uint32_t width = 0;
};

/// y[rows[k]][i] = x[k][i]: distributes rows. No number occurs twice in `rows`; `y` must not overlap `x`.
/// With `x_stride` 0 all these rows of y get the same row of x.
struct scatter_args {
  float* y = nullptr; ///< rows of `width` values, `y_stride` values apart
  std::size_t y_stride = 0;
  const std::uint32_t* rows = nullptr; ///< host memory, [num_rows]
  const float* x = nullptr;            ///< [num_rows][width], rows `x_stride` values apart
  std::size_t x_stride = 0;
  std::uint32_t num_rows = 0;
  std::uint32_t width = 0;
};

} // namespace paceline::device
