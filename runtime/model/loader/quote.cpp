#include "runtime/model/loader/quote.hpp"

namespace paceline::model {

std::string quote(std::string_view text) {
  constexpr std::size_t max_shown = 64;
  constexpr std::string_view digits = "0123456789abcdef";
  std::string out = "'";
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
  return out + (text.size() > max_shown ? "...'" : "'");
}

} // namespace paceline::model
