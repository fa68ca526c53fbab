#pragma once

#include "runtime/device/op_glu.hpp"
#include "runtime/device/op_matmul.hpp"
#include "runtime/device/ops.hpp"

#include <array>
#include <cstddef>
#include <cstdint>

namespace paceline::model {

/// Rows of float32 values in device memory.
struct value_rows {
  float* at = nullptr;
  std::size_t stride = 0; ///< values from one row to the next
};

/// Computes y = x * weights^T + bias; with `add`, y += x * weights^T + bias. A null bias is 0.
inline void product(device::ops& ops, const value_rows& x, std::uint32_t num_rows,
                    const device::matrix& weights, const float* bias, const value_rows& y, bool add = false) {
  const std::array outputs{device::matmul_output{&weights, y.at, y.stride, bias, add}};
  ops.matmul({x.at, x.stride, num_rows, weights.num_cols(), false, outputs});
}

/// x = act(x), for the first `width` values of each row.
inline void activate(device::ops& ops, const value_rows& x, std::uint32_t width, std::uint32_t num_rows,
                     device::activation act) {
  ops.glu({x.at, nullptr, x.stride, x.at, x.stride, num_rows, width, act});
}

} // namespace paceline::model
