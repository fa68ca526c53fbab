#include "runtime/tokenizer/incremental_decoder.hpp"

#include "runtime/base/utf8.hpp"

#include <utility>

namespace paceline::tokenizer {

std::string incremental_decoder::feed(token_id token) {
  std::string out;
  if (options_.skip_special && vocabulary_.is_special(token)) return out;
  std::string_view piece = vocabulary_.piece(token);
  if (piece.empty()) return out;
  if (std::exchange(at_beginning_, false) && vocabulary_.strips_leading_space() && !options_.continues_text &&
      piece.starts_with(' '))
    piece.remove_prefix(1);
  pending_ += piece;
  std::size_t at = 0;
  while (at < pending_.size()) {
    const utf8_unit unit = read_utf8(pending_, at);
    if (unit.kind == utf8_unit::state::cut_off) break;
    if (unit.kind == utf8_unit::state::complete)
      out.append(pending_, at, unit.num_bytes);
    else
      out += replacement_character;
    at += unit.num_bytes;
  }
  pending_.erase(0, at);
  return out;
}

std::string incremental_decoder::flush() {
  if (pending_.empty()) return {};
  pending_.clear(); // this is at most the beginning of one character, so there is one U+FFFD, as in the whole
                    // text
  return std::string(replacement_character);
}

} // namespace paceline::tokenizer
