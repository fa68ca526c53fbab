#pragma once

#include <cstddef>

namespace paceline::cpu {

/// Size of a huge page on x86.
inline constexpr std::size_t huge_page_bytes = std::size_t{2} << 20;

} // namespace paceline::cpu
