#pragma once

#include <string_view>

namespace paceline::wire {

/// The whitespace that has no meaning around JSON values, tags and thoughts.
inline constexpr std::string_view blanks = " \t\r\n";

constexpr bool is_blank(char c) noexcept { return blanks.find(c) != std::string_view::npos; }

/// `text` without the blanks at its beginning.
constexpr std::string_view without_blanks(std::string_view text) noexcept {
  const auto begin = text.find_first_not_of(blanks);
  return begin == std::string_view::npos ? std::string_view() : text.substr(begin);
}

} // namespace paceline::wire
