#include "protocol/wire/output/json_value_scan.hpp"

#include <array>
#include <cstdio>

namespace paceline::wire {

bool value_end::takes(char c) noexcept {
  if (in_string_) {
    if (escaped_)
      escaped_ = false;
    else if (c == '\\')
      escaped_ = true;
    else if (c == '"')
      in_string_ = false;
    complete_ = !in_string_ && depth_ == 0;
    return true;
  }
  if (depth_ == 0 && (c == ',' || c == '}' || c == ']')) return false;
  if (c == '"') in_string_ = true;
  if (c == '{' || c == '[') ++depth_;
  if (c == '}' || c == ']') complete_ = --depth_ == 0;
  return true;
}

void add_json(std::string& out, char c, bool in_string) {
  if (!in_string || static_cast<unsigned char>(c) >= 0x20) {
    out += c;
    return;
  }
  std::array<char, 8> escape{};
  std::snprintf(escape.data(), escape.size(), "\\u%04x",
                static_cast<unsigned>(static_cast<unsigned char>(c)));
  out += c == '\n' ? "\\n" : c == '\t' ? "\\t" : escape.data();
}

} // namespace paceline::wire
