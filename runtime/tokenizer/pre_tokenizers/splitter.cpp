#include "runtime/tokenizer/pre_tokenizers/splitter.hpp"

#include "runtime/base/utf8.hpp"
#include "runtime/tokenizer/text/characters.hpp"

#include <algorithm>
#include <utility>

namespace paceline::tokenizer {

namespace {

using ranges = std::vector<text_range>;

expected<void> find_matches(const regex& pattern, std::string_view text, regex::scratch& work, ranges& out) {
  auto matches = pattern.find_all(text, work);
  if (!matches) return std::move(matches).error();
  out = std::move(*matches);
  return {};
}

expected<void> find_matches(const std::string& literal, std::string_view text, regex::scratch&, ranges& out) {
  if (literal.empty()) return {};
  for (std::size_t at = text.find(literal); at != text.npos; at = text.find(literal, at + literal.size()))
    out.push_back({at, at + literal.size()});
  return {};
}

expected<void> find_matches(digit_groups rule, std::string_view text, regex::scratch&, ranges& out) {
  std::vector<std::size_t> digits; // where each character of the current run begins
  for (std::size_t at = 0; at <= text.size();) {
    const utf8_unit unit = at < text.size() ? read_utf8(text, at) : utf8_unit{};
    if (at < text.size() && (rule.needs_word_boundary ? is_decimal_digit : is_number)(unit.code_point)) {
      digits.push_back(at);
    } else if (!digits.empty()) {
      const bool bounded = at == text.size() || !is_oniguruma_word_character(unit.code_point);
      if (bounded || !rule.needs_word_boundary) {
        digits.push_back(at);
        const std::size_t num_digits = digits.size() - 1;
        std::size_t length = (num_digits - 1) % 3 + 1; // of the leading group
        for (std::size_t i = 0; i < num_digits; i += std::exchange(length, 3))
          out.push_back({digits[i], digits[i + length]});
      }
      digits.clear();
    }
    at += unit.num_bytes;
  }
  return {};
}

expected<void> find_matches(line_end_spaces, std::string_view text, regex::scratch&, ranges& out) {
  for (std::size_t begin = 0; begin < text.size();) {
    std::size_t end = begin;  // of the run of spaces
    std::size_t last = begin; // the last line's end in it
    while (end < text.size()) {
      const utf8_unit unit = read_utf8(text, end);
      if (!is_space(unit.code_point)) break;
      if (text[end] == '\n') last = end;
      end += unit.num_bytes;
    }
    if (end == text.size()) last = end;
    if (last > begin) out.push_back({begin, last});
    begin = end < text.size() ? end + utf8_length(text[end]) : end;
  }
  return {};
}

} // namespace

expected<splitter> splitter::from_pattern(std::string_view pattern, split_behavior behavior, bool invert) {
  if (pattern == R"(\s+$)") return splitter(line_end_spaces{}, behavior, invert);
  if (pattern == R"(\d{1,3}(?=(?:\d{3})*\b))") return splitter(digit_groups{true}, behavior, invert);
  auto compiled = regex::compile(pattern);
  if (!compiled) return std::move(compiled).error();
  return splitter(std::move(*compiled), behavior, invert);
}

expected<void> splitter::apply(text_pieces& pieces, regex::scratch& work) const {
  ranges result;
  result.reserve(pieces.ranges.size());
  std::vector<part> parts;
  for (const text_range piece : pieces.ranges) {
    parts.clear();
    if (auto found = find_parts(pieces[piece], parts, work); !found) return found;
    merge_parts(parts);
    for (const auto& [range, matches] : parts)
      if (range.begin < range.end && !(matches && behavior_ == split_behavior::removed))
        result.push_back({piece.begin + range.begin, piece.begin + range.end});
  }
  pieces.ranges = std::move(result);
  return {};
}

expected<void> splitter::find_parts(std::string_view piece, std::vector<part>& parts,
                                    regex::scratch& work) const {
  ranges matches;
  auto found = std::visit([&](const auto& what) { return find_matches(what, piece, work, matches); }, what_);
  if (!found) return found;
  std::size_t end = 0;
  for (const text_range match : matches) {
    if (end < match.begin) parts.push_back({{end, match.begin}, invert_});
    parts.push_back({match, !invert_});
    end = match.end;
  }
  if (end < piece.size()) parts.push_back({{end, piece.size()}, invert_});
  return {};
}

void splitter::merge_parts(std::vector<part>& parts) const {
  if (behavior_ == split_behavior::isolated || behavior_ == split_behavior::removed || parts.empty()) return;
  const bool backwards = behavior_ == split_behavior::merged_with_next;
  if (backwards) std::reverse(parts.begin(), parts.end());
  std::size_t last = 0;
  bool previous_matches = parts[0].matches;
  for (std::size_t i = 1; i < parts.size(); ++i) {
    const part current = parts[i];
    const bool joins = behavior_ == split_behavior::contiguous ? current.matches == previous_matches
                                                               : current.matches && !previous_matches;
    if (joins && backwards)
      parts[last].range.begin = current.range.begin;
    else if (joins)
      parts[last].range.end = current.range.end;
    else
      parts[++last] = current;
    previous_matches = current.matches;
  }
  parts.resize(last + 1);
  if (backwards) std::reverse(parts.begin(), parts.end());
}

} // namespace paceline::tokenizer
