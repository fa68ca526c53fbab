#include "apps/commands/token_painter.hpp"

#include "apps/commands/run_request.hpp"
#include "apps/terminal_text.hpp"

#include <algorithm>
#include <string_view>
#include <unistd.h>

namespace paceline::apps {

painting painting_for_output(bool wants_origins) {
  if (isatty(STDOUT_FILENO) == 0) return painting::none;
  return wants_origins && wants_colour() ? painting::coloured : painting::plain;
}

std::string token_painter::show(const token_event& event) {
  if (how_ == painting::none) return event.text;
  if (how_ == painting::plain) return for_terminal(event.text);
  for (std::size_t i = 0; i < event.tokens.size(); ++i)
    spans_.emplace_back(origin_of(event, i), decoder_.feed(event.tokens[i]));
  std::string out;
  std::string_view left = event.text;
  while (!left.empty() && !spans_.empty()) {
    auto& [origin, text] = spans_.front();
    const auto count = std::min(text.size(), left.size());
    out += painted(origin, for_terminal(left.substr(0, count)), true);
    left.remove_prefix(count);
    text.erase(0, count);
    if (text.empty()) spans_.pop_front();
  }
  return out.append(for_terminal(left)); // the bytes of a character that was never completed
}

} // namespace paceline::apps
