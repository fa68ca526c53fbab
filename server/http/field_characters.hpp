#pragma once

#include <string_view>

namespace paceline::server {

/// True for a character of a method or of a header's name (RFC 9110: token).
constexpr bool is_token_char(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
}

/// True for a character of a header's value: no control character except a tab.
constexpr bool is_value_char(char c) noexcept {
  const auto byte = static_cast<unsigned char>(c);
  return byte == '\t' || (byte >= 0x20 && byte != 0x7f);
}

} // namespace paceline::server
