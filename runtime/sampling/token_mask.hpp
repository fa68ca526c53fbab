#pragma once

#include <cstdint>
#include <span>

namespace paceline::sampling {

/// Sets row[i] to -infinity if bit i of `allowed` is 0 or missing. Bit i is bit i % 32 of word i / 32, where
/// bit 0 is the lowest.
void apply_mask(std::span<const std::uint32_t> allowed, std::span<float> row) noexcept;

} // namespace paceline::sampling
