#pragma once

#include <optional>

namespace paceline {

constexpr bool is_surrogate(char32_t unit) noexcept { return unit >= 0xD800 && unit < 0xE000; }

/// The code point that two UTF-16 units spell; nullopt unless they are a high and a low surrogate.
constexpr std::optional<char32_t> joined_surrogates(char32_t high, char32_t low) noexcept {
  if (high < 0xD800 || high >= 0xDC00 || low < 0xDC00 || low >= 0xE000) return std::nullopt;
  return 0x10000 + ((high - 0xD800) << 10U) + (low - 0xDC00);
}

} // namespace paceline
