#pragma once

#include <cstdint>
#include <span>

namespace paceline::sampling {

/// Sets row[i] to -infinity wherever bit i of `allowed` is 0 or missing; bits count from the lowest one of
/// the first word on.
void apply_mask(std::span<const std::uint32_t> allowed, std::span<float> row) noexcept;

} // namespace paceline::sampling
