#pragma once

#include "runtime/device/matrix.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace paceline::cpu {

/// x[rows][cols], row after row.
struct reference_rows {
  std::span<const float> x;
  std::uint32_t num_rows = 0;
  bool two_planes = false; ///< see op_matmul.hpp
};

/// The contract of op_matmul.hpp as plain code, for tests. Computes [num_rows][weights.num_rows] directly
/// from the stored tensor `weights`, which must pass `device::check_tensor`. Slow.
std::vector<float> matmul_reference(const device::tensor_view& weights, reference_rows x);

} // namespace paceline::cpu
