#pragma once

#include "runtime/device/matrix.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace paceline::gpu {

/// An output of a product as defined in gpu/kernels/sixteen_bit.hpp.
struct reference_output {
  double value = 0; ///< with exact sums
  double bound = 0; ///< largest deviation from it that roundings may cause
};

/// Outputs [num_rows][weights.num_rows] for the finite rows x [num_rows][weights.num_cols].
std::vector<reference_output> sixteen_bit_reference(const device::tensor_view& weights,
                                                    std::span<const float> x, std::uint32_t num_rows);
/// The same for a product of more than 64 rows in fast mode.
std::vector<reference_output> fast_reference(const device::tensor_view& weights, std::span<const float> x,
                                             std::uint32_t num_rows);

} // namespace paceline::gpu
