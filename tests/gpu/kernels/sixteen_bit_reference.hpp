#pragma once

#include "runtime/device/matrix.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace paceline::gpu {

/// An output of a product as gpu/kernels/sixteen_bit.hpp defines it.
struct reference_output {
  double value = 0; ///< of exact sums
  double bound = 0; ///< how far roundings may take a device from that
};

/// Outputs [num_rows][weights.num_rows] for the finite rows x [num_rows][weights.num_cols].
std::vector<reference_output> sixteen_bit_reference(const device::tensor_view& weights,
                                                    std::span<const float> x, std::uint32_t num_rows);
/// The same of a product of more than 64 rows in fast mode.
std::vector<reference_output> fast_reference(const device::tensor_view& weights, std::span<const float> x,
                                             std::uint32_t num_rows);

} // namespace paceline::gpu
