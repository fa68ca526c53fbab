#include "apps/terminal_text.hpp"

#include "runtime/base/utf8.hpp"

#include <unistd.h>

namespace paceline::apps {

std::string for_terminal(std::string_view text, std::string_view kept) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const auto unit = read_utf8(text, at);
    const auto c = unit.code_point;
    const bool is_control = c < 0x20 || (c >= 0x7F && c < 0xA0);
    const bool is_shown = !is_control || kept.find(text[at]) != std::string_view::npos;
    out.append(unit.kind == utf8_unit::state::complete && is_shown ? text.substr(at, unit.num_bytes)
                                                                   : replacement_character);
    at += unit.num_bytes;
  }
  return out;
}

std::string for_output(std::string_view text) {
  return isatty(STDOUT_FILENO) != 0 ? for_terminal(text) : std::string(text);
}

} // namespace paceline::apps
