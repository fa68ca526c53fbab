#pragma once

#include <string>
#include <string_view>

namespace paceline::tokenizer {

/// SentencePiece's spelling of a space: U+2581.
inline constexpr std::string_view space_mark = "\xe2\x96\x81";

/// Appends `text` with every `from` (leftmost first, not empty) replaced by `to`.
inline void append_replaced(std::string& out, std::string_view text, std::string_view from,
                            std::string_view to) {
  std::size_t begin = 0;
  for (std::size_t at = text.find(from); at != text.npos; at = text.find(from, begin)) {
    out.append(text.substr(begin, at - begin)).append(to);
    begin = at + from.size();
  }
  out.append(text.substr(begin));
}

} // namespace paceline::tokenizer
