#pragma once

#include <cstddef>
#include <cstdint>

namespace paceline::gpu {

/// num / of, rounded up.
constexpr std::uint32_t pieces(std::size_t num, std::size_t of) noexcept {
  return static_cast<std::uint32_t>((num + of - 1) / of);
}

} // namespace paceline::gpu
