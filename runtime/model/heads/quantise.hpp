#pragma once

#include "runtime/device/tensor_type.hpp"

#include <cstddef>
#include <span>
#include <vector>

namespace paceline::model {

/// Rows of whole blocks of 32 values in the format Q8_0 or Q4_0. Scales are the largest magnitude over 127,
/// and the value of the largest magnitude over -8, as in files of these formats.
std::vector<std::byte> quantise(std::span<const float> values, device::tensor_type type);

} // namespace paceline::model
