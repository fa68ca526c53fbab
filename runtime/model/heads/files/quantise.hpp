#pragma once

#include "runtime/device/tensor_type.hpp"

#include <cstddef>
#include <span>
#include <vector>

namespace paceline::model {

/// The bytes of `values` in the format `type`, which must be Q8_0 or Q4_0. The number of values must be a
/// multiple of 32. As in files of these formats, the scale of a block is its largest magnitude divided by 127
/// (Q8_0), or its value of largest magnitude divided by -8 (Q4_0).
std::vector<std::byte> quantise(std::span<const float> values, device::tensor_type type);

} // namespace paceline::model
