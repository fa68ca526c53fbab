#include "protocol/wire/json_view.hpp"

#include "runtime/base/utf16.hpp"
#include "runtime/base/utf8.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>

namespace paceline::wire {

namespace {

bool is_blank(char c) noexcept { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

std::size_t skip_blanks(std::string_view text, std::size_t at) noexcept {
  while (at < text.size() && is_blank(text[at])) ++at;
  return at;
}

/// Position after the string whose opening quote is at `at`.
std::size_t skip_string(std::string_view text, std::size_t at) noexcept {
  for (++at; at < text.size() && text[at] != '"'; ++at)
    if (text[at] == '\\') ++at;
  return std::min(at + 1, text.size());
}

/// Position after the value that begins at `at`.
std::size_t skip_value(std::string_view text, std::size_t at) noexcept {
  if (text[at] == '"') return skip_string(text, at);
  if (text[at] != '[' && text[at] != '{') {
    while (at < text.size() && text[at] != ',' && text[at] != ']' && text[at] != '}' && !is_blank(text[at]))
      ++at;
    return at;
  }
  std::size_t depth = 0;
  while (at < text.size()) {
    const char c = text[at];
    if (c == '"') {
      at = skip_string(text, at);
      continue;
    }
    if (c == '[' || c == '{') ++depth;
    ++at;
    if ((c == ']' || c == '}') && --depth == 0) break;
  }
  return at;
}

/// Beginning of the next element, after a bracket or the end of an element; the text's size after the last
/// one.
std::size_t next_element(std::string_view text, std::size_t at) noexcept {
  at = skip_blanks(text, at);
  if (at < text.size() && text[at] == ',') at = skip_blanks(text, at + 1);
  return at + 1 >= text.size() ? text.size() : at;
}

unsigned hex_digits(std::string_view four) noexcept {
  unsigned value = 0;
  std::from_chars(four.data(), four.data() + four.size(), value, 16);
  return value;
}

/// `at` is after a backslash. Returns the position after the escape.
std::size_t append_unescaped(std::string& out, std::string_view raw, std::size_t at) {
  static constexpr std::string_view letters = "bfnrt";
  static constexpr std::string_view meanings = "\b\f\n\r\t";
  const char c = raw[at++];
  if (c != 'u') {
    const auto place = letters.find(c);
    out += place == std::string_view::npos ? c : meanings[place];
    return at;
  }
  char32_t code = hex_digits(raw.substr(at, 4));
  at += 4;
  if (is_surrogate(code)) { // the parser has checked that both halves are there
    code = *joined_surrogates(code, hex_digits(raw.substr(at + 2, 4)));
    at += 6;
  }
  append_utf8(out, code);
  return at;
}

std::string unescape(std::string_view raw) {
  std::string out;
  out.reserve(raw.size());
  for (std::size_t at = 0; at < raw.size();) {
    const auto escape = std::min(raw.find('\\', at), raw.size());
    out.append(raw, at, escape - at);
    at = escape == raw.size() ? escape : append_unescaped(out, raw, escape + 1);
  }
  return out;
}

/// Compares until the first difference. A body may have a million names that are all escaped, or one that is
/// as long as the body.
bool spells(std::string_view raw, std::string_view expected) {
  for (std::size_t at = 0; at < raw.size();) {
    std::string character;
    if (raw[at] == '\\')
      at = append_unescaped(character, raw, at + 1);
    else
      character = raw[at++];
    if (expected.substr(0, character.size()) != character) return false;
    expected.remove_prefix(character.size());
  }
  return expected.empty();
}

std::string_view inside_quotes(std::string_view text) { return text.substr(1, text.size() - 2); }

template <class Int>
std::optional<Int> to_integer(std::string_view text) {
  Int value{};
  const auto* end = text.data() + text.size();
  const auto [stop, failure] = std::from_chars(text.data(), end, value);
  return failure == std::errc{} && stop == end ? std::optional(value) : std::nullopt;
}

} // namespace

std::optional<bool> json_view::boolean() const {
  return is_bool() ? std::optional(text_.front() == 't') : std::nullopt;
}

std::optional<std::int64_t> json_view::int64() const {
  return is_number() ? to_integer<std::int64_t>(text_) : std::nullopt;
}

std::optional<std::uint64_t> json_view::uint64() const {
  return is_number() ? to_integer<std::uint64_t>(text_) : std::nullopt;
}

std::optional<double> json_view::number() const {
  if (!is_number()) return std::nullopt;
  double value = 0;
  const auto [stop, failure] = std::from_chars(text_.data(), text_.data() + text_.size(), value);
  if (failure == std::errc::result_out_of_range) // too large, or nearly zero
    value = std::fabs(std::strtod(std::string(text_).c_str(), nullptr)) > 1 ? HUGE_VAL : 0;
  return value;
}

std::optional<std::string> json_view::string() const {
  return is_string() ? std::optional(unescape(inside_quotes(text_))) : std::nullopt;
}

bool json_view::is_string(std::string_view expected) const {
  return is_string() && spells(inside_quotes(text_), expected);
}

json_elements json_view::elements() const { return json_elements(is_array() ? text_ : "[]"); }
json_members json_view::members() const { return json_members(is_object() ? text_ : "{}"); }

std::string json_member::name() const { return unescape(raw_name); }
bool json_member::is_named(std::string_view name) const { return spells(raw_name, name); }

json_elements::iterator::iterator(std::string_view text, std::size_t at)
    : text_(text), begin_(at >= text.size() ? text.size() : next_element(text, at)) {
  find_end();
}

void json_elements::iterator::find_end() {
  end_ = begin_ < text_.size() ? skip_value(text_, begin_) : begin_;
}

json_elements::iterator& json_elements::iterator::operator++() {
  begin_ = next_element(text_, end_);
  find_end();
  return *this;
}

std::size_t json_elements::count() const {
  std::size_t count = 0;
  for (auto it = begin(); it != end(); ++it) ++count;
  return count;
}

json_members::iterator::iterator(std::string_view text, std::size_t at)
    : text_(text), begin_(at >= text.size() ? text.size() : next_element(text, at)) {
  find_end();
}

void json_members::iterator::find_end() {
  if (begin_ >= text_.size()) return;
  name_end_ = skip_string(text_, begin_);
  value_begin_ = skip_blanks(text_, skip_blanks(text_, name_end_) + 1);
  end_ = skip_value(text_, value_begin_);
}

json_member json_members::iterator::operator*() const {
  return {inside_quotes(text_.substr(begin_, name_end_ - begin_)),
          json_view(text_.substr(value_begin_, end_ - value_begin_))};
}

json_members::iterator& json_members::iterator::operator++() {
  begin_ = next_element(text_, end_);
  find_end();
  return *this;
}

std::optional<json_view> member_of(json_view object, std::string_view name) {
  std::optional<json_view> found;
  for (const auto member : object.members())
    if (member.is_named(name)) found = member.value;
  return found;
}

std::optional<std::vector<token_id>> read_token_ids(json_elements elements) {
  std::size_t count = 0;
  for (const auto value : elements) {
    if (!value.is_number()) return std::nullopt;
    ++count;
  }
  std::vector<token_id> tokens;
  tokens.reserve(count);
  for (const auto value : elements) {
    const auto id = to_integer<std::int32_t>(value.source());
    if (!id || *id < 0) return std::nullopt;
    tokens.emplace_back(*id);
  }
  return tokens;
}

std::size_t count_values(json_view value) {
  const auto text = value.source();
  std::size_t count = 1; // each comma adds one value, and each bracket at most one
  for (std::size_t at = 0; at < text.size();) {
    if (text[at] == '"') {
      at = skip_string(text, at);
      continue;
    }
    count += text[at] == ',' || text[at] == '[' || text[at] == '{';
    ++at;
  }
  return count;
}

std::string compact(json_view value) {
  const auto text = value.source();
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    if (is_blank(text[at])) {
      ++at;
      continue;
    }
    const auto end = text[at] == '"' ? skip_string(text, at) : at + 1;
    out.append(text, at, end - at);
    at = end;
  }
  return out;
}

} // namespace paceline::wire
