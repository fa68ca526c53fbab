#pragma once

#include <cstdint>
#include <limits>
#include <optional>

namespace paceline::model {

// Arithmetic on sizes read from a file. Results are nullopt if the exact result exceeds 64 bits. Loaders
// compute the sizes of tensors with these functions and then compare them with the size of the file.

constexpr std::optional<std::uint64_t> checked_add(std::uint64_t a, std::uint64_t b) noexcept {
  if (b > std::numeric_limits<std::uint64_t>::max() - a) return std::nullopt;
  return a + b;
}

constexpr std::optional<std::uint64_t> checked_mul(std::uint64_t a, std::uint64_t b) noexcept {
  if (a != 0 && b > std::numeric_limits<std::uint64_t>::max() / a) return std::nullopt;
  return a * b;
}

/// Smallest multiple of `alignment` (a power of two) that is at least `value`.
constexpr std::optional<std::uint64_t> checked_align(std::uint64_t value, std::uint64_t alignment) noexcept {
  const auto padded = checked_add(value, alignment - 1);
  if (!padded) return std::nullopt;
  return *padded & ~(alignment - 1);
}

} // namespace paceline::model
