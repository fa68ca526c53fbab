#include "runtime/tokenizer/added_tokens.hpp"

#include "runtime/base/utf8.hpp"
#include "runtime/tokenizer/text/characters.hpp"

#include <algorithm>
#include <functional>
#include <utility>

namespace paceline::tokenizer {

namespace {

/// Start of the character that ends at `end` (> 0).
std::size_t previous_character(std::string_view text, std::size_t end) noexcept {
  do --end;
  while (end > 0 && is_utf8_continuation(text[end]));
  return end;
}

std::size_t skip_spaces_left(std::string_view text, std::size_t from, std::size_t limit) noexcept {
  while (from > limit) {
    const std::size_t begin = previous_character(text, from);
    if (!is_space(read_utf8(text, begin).code_point)) break;
    from = begin;
  }
  return std::max(from, limit);
}

std::size_t skip_spaces_right(std::string_view text, std::size_t from, std::size_t limit) noexcept {
  while (from < limit) {
    const utf8_unit unit = read_utf8(text, from);
    if (!is_space(unit.code_point)) break;
    from += unit.num_bytes;
  }
  return std::min(from, limit);
}

bool inside_word(std::string_view text, text_range range) noexcept {
  const bool left =
      range.begin > 0 && is_word_character(read_utf8(text, previous_character(text, range.begin)).code_point);
  const bool right = range.end < text.size() && is_word_character(read_utf8(text, range.end).code_point);
  return left || right;
}

/// Appends `token`, found at `found`, and the text `free` before it, trimmed as the token requires; returns
/// where the text continues.
std::size_t append_token(std::string_view text, text_range free, text_range found, const added_token& token,
                         std::vector<text_segment>& out) {
  std::size_t end_of_text = found.begin;
  if (token.strip_left) end_of_text = skip_spaces_left(text, end_of_text, free.begin);
  if (free.begin < end_of_text) out.push_back({{free.begin, end_of_text}, std::nullopt});
  out.push_back({found, token.id});
  return token.strip_right ? skip_spaces_right(text, found.end, free.end) : found.end;
}

} // namespace

added_tokens::added_tokens(std::vector<added_token> tokens, match_order order)
    : order_(order), tokens_(std::move(tokens)) {
  std::erase_if(tokens_, [](const added_token& token) { return token.spelling.empty(); });
  std::sort(tokens_.begin(), tokens_.end(), [](const added_token& a, const added_token& b) {
    return a.spelling.size() != b.spelling.size() ? a.spelling.size() > b.spelling.size() : a.id < b.id;
  });
  // A normalizer may give several tokens the same spelling. The token with the lowest id is found.
  std::erase_if(tokens_, [&](const added_token& token) {
    const auto num_known = spellings_.size();
    return static_cast<std::size_t>(spellings_.intern(token.spelling).value) < num_known;
  });
  for (const auto& token : tokens_) {
    auto& lengths = lengths_[static_cast<unsigned char>(token.spelling[0])];
    const auto length = static_cast<std::uint32_t>(token.spelling.size());
    if (lengths.empty() || lengths.back() != length) lengths.push_back(length);
  }
}

std::vector<text_segment> added_tokens::split(std::string_view text, bool parse_special) const {
  if (text.empty()) return {};
  if (tokens_.empty()) return {{{0, text.size()}, std::nullopt}};
  return order_ == match_order::leftmost ? split_leftmost(text, parse_special)
                                         : split_by_length(text, parse_special);
}

std::optional<std::size_t> added_tokens::longest_at(std::string_view text, std::size_t at) const {
  for (const std::uint32_t length : lengths_[static_cast<unsigned char>(text[at])]) {
    if (length > text.size() - at) continue;
    if (const auto found = spellings_.find(text.substr(at, length)))
      return static_cast<std::size_t>(found->value);
  }
  return std::nullopt;
}

std::vector<text_segment> added_tokens::split_leftmost(std::string_view text, bool parse_special) const {
  std::vector<text_segment> out;
  text_range free{0, text.size()};
  for (std::size_t at = 0; at < text.size();) {
    const auto index = longest_at(text, at);
    if (!index) {
      ++at;
      continue;
    }
    // A spelling that was found is always consumed: nothing is searched for inside it.
    const added_token& token = tokens_[*index];
    const text_range range{at, at + token.spelling.size()};
    at = range.end;
    if (token.special && !parse_special) continue;
    if (token.single_word && inside_word(text, range)) continue;
    free.begin = append_token(text, free, range, token, out);
  }
  if (free.begin < free.end) out.push_back({free, std::nullopt});
  return out;
}

std::vector<std::size_t> added_tokens::present(std::string_view text, bool parse_special) const {
  std::vector<bool> seen(tokens_.size(), false);
  for (std::size_t at = 0; at < text.size(); ++at) {
    for (const std::uint32_t length : lengths_[static_cast<unsigned char>(text[at])]) {
      if (length > text.size() - at) continue;
      if (const auto found = spellings_.find(text.substr(at, length)))
        seen[static_cast<std::size_t>(found->value)] = true;
    }
  }
  std::vector<std::size_t> indices; // in tokens_' order: longest first
  for (std::size_t i = 0; i < seen.size(); ++i)
    if (seen[i] && (parse_special || !tokens_[i].special)) indices.push_back(i);
  return indices;
}

std::vector<text_segment> added_tokens::split_by_length(std::string_view text, bool parse_special) const {
  std::vector<text_segment> segments{{{0, text.size()}, std::nullopt}};
  for (const std::size_t index : present(text, parse_special)) {
    const added_token& token = tokens_[index];
    const std::boyer_moore_horspool_searcher search(token.spelling.begin(), token.spelling.end());
    std::vector<text_segment> next;
    next.reserve(segments.size());
    for (const text_segment& segment : segments) {
      if (segment.token) {
        next.push_back(segment);
        continue;
      }
      text_range free = segment.range;
      while (free.begin < free.end) {
        const auto begin = text.begin() + static_cast<std::ptrdiff_t>(free.begin);
        const auto end = text.begin() + static_cast<std::ptrdiff_t>(free.end);
        const auto at = std::search(begin, end, search);
        if (at == end) break;
        const auto found = static_cast<std::size_t>(at - text.begin());
        free.begin = append_token(text, free, {found, found + token.spelling.size()}, token, next);
      }
      if (free.begin < free.end) next.push_back({free, std::nullopt});
    }
    segments = std::move(next);
  }
  return segments;
}

} // namespace paceline::tokenizer
