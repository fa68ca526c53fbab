#pragma once

#include <string_view>

namespace paceline::server {

/// A character of a token: of a method or a field's name.
constexpr bool is_token_char(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
}

/// A character of a field's value: no control character but a tab.
constexpr bool is_value_char(char c) noexcept {
  const auto byte = static_cast<unsigned char>(c);
  return byte == '\t' || (byte >= 0x20 && byte != 0x7f);
}

} // namespace paceline::server
