#include "runtime/base/quote.hpp"

namespace paceline {

std::string escaped(std::string_view text) {
  constexpr std::size_t max_shown = 64;
  constexpr std::string_view digits = "0123456789abcdef";
  std::string out;
  for (const char c : text.substr(0, max_shown)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f) {
      out += c;
    } else {
      out += "\\x";
      out += digits[byte >> 4];
      out += digits[byte & 15];
    }
  }
  if (text.size() > max_shown) out += "...";
  return out;
}

std::string quote(std::string_view text) { return "'" + escaped(text) + "'"; }

} // namespace paceline
