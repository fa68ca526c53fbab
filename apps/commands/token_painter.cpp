#include "apps/commands/token_painter.hpp"

#include <algorithm>
#include <string_view>

namespace paceline::apps {

std::string token_painter::show(const token_event& event) {
  if (!colour_) return event.text;
  for (std::size_t i = 0; i < event.tokens.size(); ++i)
    spans_.emplace_back(origin_of(event, i), decoder_.feed(event.tokens[i]));
  std::string out;
  std::string_view left = event.text;
  while (!left.empty() && !spans_.empty()) {
    auto& [origin, text] = spans_.front();
    const auto count = std::min(text.size(), left.size());
    out += painted(origin, left.substr(0, count), true);
    left.remove_prefix(count);
    text.erase(0, count);
    if (text.empty()) spans_.pop_front();
  }
  return out.append(left); // the bytes of a character that was never completed
}

} // namespace paceline::apps
