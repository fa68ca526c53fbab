#include "runtime/tokenizer/chat_template/python/unicode.hpp"

#include "runtime/base/utf8.hpp"
#include "runtime/tokenizer/chat_template/python/case_expansions.hpp"

#include <algorithm>
#include <array>
#include <utf8proc.h>

namespace paceline::tokenizer::jinja {

namespace {

utf8proc_int32_t number(char32_t c) { return static_cast<utf8proc_int32_t>(c); }
utf8proc_category_t category(char32_t c) { return utf8proc_category(number(c)); }

bool is_between(char32_t c, char32_t first, char32_t last) { return c >= first && c <= last; }

const case_expansion* find_expansion(char32_t c) {
  const auto* found =
      std::lower_bound(case_expansions.begin(), case_expansions.end(), c,
                       [](const case_expansion& row, char32_t key) { return row.character < key; });
  return found != case_expansions.end() && found->character == c ? found : nullptr;
}

void append_all(std::string& out, const char32_t* characters) {
  for (; *characters != 0; ++characters) append_utf8(out, *characters);
}

void append_upper(std::string& out, char32_t c) {
  if (is_between(c, 0x1f80, 0x1faf)) { // Greek with iota subscript: the capital, then a capital iota
    const char32_t capitals = c < 0x1f90 ? 0x1f08 : c < 0x1fa0 ? 0x1f28 : 0x1f68;
    append_utf8(out, capitals + (c & 7));
    append_utf8(out, 0x399);
  } else if (const auto* expansion = find_expansion(c)) {
    append_all(out, expansion->upper);
  } else {
    append_utf8(out, static_cast<char32_t>(utf8proc_toupper(number(c))));
  }
}

void append_title(std::string& out, char32_t c) {
  if (const auto* expansion = find_expansion(c))
    append_all(out, expansion->title);
  else
    append_utf8(out, static_cast<char32_t>(utf8proc_totitle(number(c))));
}

bool is_cased(char32_t c) { return is_upper(c) || is_lower(c) || is_title(c); }

/// Characters that are skipped when looking for the neighbouring letter (the commonly used part of Unicode's
/// Case_Ignorable).
bool is_case_ignorable(char32_t c) {
  const auto kind = category(c);
  return c == '\'' || c == '.' || c == ':' || c == '^' || c == '`' || c == 0xb7 || c == 0x2019 ||
         kind == UTF8PROC_CATEGORY_MN || kind == UTF8PROC_CATEGORY_ME || kind == UTF8PROC_CATEGORY_CF ||
         kind == UTF8PROC_CATEGORY_LM || kind == UTF8PROC_CATEGORY_SK;
}

/// A capital sigma at the end of a word: after a letter, and not before one.
bool is_final_sigma(std::string_view text, std::size_t at, std::size_t size) {
  bool letter_before = false;
  for (std::size_t end = at; end > 0;) {
    const character c = character_before(text, end);
    if (!is_case_ignorable(c.code)) {
      letter_before = is_cased(c.code);
      break;
    }
    end -= c.size;
  }
  if (!letter_before) return false;
  for (std::size_t next = at + size; next < text.size();) {
    const character c = character_at(text, next);
    if (!is_case_ignorable(c.code)) return !is_cased(c.code);
    next += c.size;
  }
  return true;
}

void append_lower(std::string& out, std::string_view text, std::size_t at, character c) {
  if (c.code == 0x130) { // capital I with dot: the dot becomes a combining one
    append_utf8(out, 'i');
    append_utf8(out, 0x307);
  } else if (c.code == 0x3a3) {
    append_utf8(out, is_final_sigma(text, at, c.size) ? 0x3c2 : 0x3c3);
  } else {
    append_utf8(out, static_cast<char32_t>(utf8proc_tolower(number(c.code))));
  }
}

/// A malformed byte has no case; it is copied.
bool copied_as_is(std::string& out, std::string_view text, std::size_t at, character c) {
  if (c.size != 1 || static_cast<unsigned char>(text[at]) < 0x80) return false;
  out += text[at];
  return true;
}

template <class Append>
std::string mapped(std::string_view text, Append append) {
  std::string out;
  out.reserve(text.size());
  for_each_character(text, [&](character c, std::size_t at) {
    if (!copied_as_is(out, text, at, c)) append(out, c, at);
  });
  return out;
}

} // namespace

character character_at(std::string_view text, std::size_t at) noexcept {
  const auto unit = read_utf8(text, at);
  if (unit.kind != utf8_unit::state::complete) return {0xfffd, 1};
  return {unit.code_point, unit.num_bytes};
}

character character_before(std::string_view text, std::size_t end) noexcept {
  for (std::size_t size = 1; size <= 4 && size <= end; ++size) {
    if (is_utf8_continuation(text[end - size])) continue;
    const character c = character_at(text, end - size);
    if (c.size == size) return c;
    break;
  }
  return {0xfffd, 1};
}

bool is_ascii(std::string_view text) noexcept {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

std::size_t num_characters(std::string_view text) noexcept {
  std::size_t count = 0;
  for_each_character(text, [&](character, std::size_t) { ++count; });
  return count;
}

std::size_t byte_offset(std::string_view text, std::size_t index) noexcept {
  std::size_t at = 0;
  for (; index > 0 && at < text.size(); --index) at += character_at(text, at).size;
  return at;
}

bool is_space(char32_t c) noexcept {
  return is_between(c, 0x09, 0x0d) || is_between(c, 0x1c, 0x20) || c == 0x85 || c == 0xa0 || c == 0x1680 ||
         is_between(c, 0x2000, 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f ||
         c == 0x3000;
}

std::string_view without_leading_blanks(std::string_view text) noexcept {
  while (!text.empty()) {
    const character c = character_at(text, 0);
    if (!is_space(c.code)) break;
    text.remove_prefix(c.size);
  }
  return text;
}

std::string_view without_trailing_blanks(std::string_view text) noexcept {
  while (!text.empty()) {
    const character c = character_before(text, text.size());
    if (!is_space(c.code)) break;
    text.remove_suffix(c.size);
  }
  return text;
}

bool is_line_break(char32_t c) noexcept {
  return is_between(c, 0x0a, 0x0d) || is_between(c, 0x1c, 0x1e) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

bool is_alphabetic(char32_t c) noexcept {
  return is_between(static_cast<char32_t>(category(c)), UTF8PROC_CATEGORY_LU, UTF8PROC_CATEGORY_LO);
}

bool is_decimal(char32_t c) noexcept { return category(c) == UTF8PROC_CATEGORY_ND; }

bool is_digit(char32_t c) noexcept {
  return is_decimal(c) || c == 0xb2 || c == 0xb3 || c == 0xb9 || c == 0x2070 ||
         is_between(c, 0x2074, 0x2079) || is_between(c, 0x2080, 0x2089) || is_between(c, 0x2460, 0x2468) ||
         is_between(c, 0x2474, 0x247c) || is_between(c, 0x2488, 0x2490);
}

bool is_numeric(char32_t c) noexcept {
  return is_between(static_cast<char32_t>(category(c)), UTF8PROC_CATEGORY_ND, UTF8PROC_CATEGORY_NO) ||
         c == 0x3007 || c == 0x4e00 || c == 0x4e8c || c == 0x4e09 || c == 0x56db || c == 0x4e94 ||
         c == 0x516d || c == 0x4e03 || c == 0x516b || c == 0x4e5d ||
         c == 0x5341; // and the Han digits in common use
}

bool is_upper(char32_t c) noexcept {
  return category(c) == UTF8PROC_CATEGORY_LU || is_between(c, 0x2160, 0x216f) ||
         is_between(c, 0x24b6, 0x24cf);
}

bool is_lower(char32_t c) noexcept {
  return category(c) == UTF8PROC_CATEGORY_LL || c == 0xaa || c == 0xba || is_between(c, 0x2b0, 0x2b8) ||
         is_between(c, 0x2170, 0x217f) || is_between(c, 0x24d0, 0x24e9);
}

bool is_title(char32_t c) noexcept { return category(c) == UTF8PROC_CATEGORY_LT; }

bool is_printable(char32_t c) noexcept {
  if (c == ' ') return true;
  switch (category(c)) {
  case UTF8PROC_CATEGORY_CC:
  case UTF8PROC_CATEGORY_CF:
  case UTF8PROC_CATEGORY_CS:
  case UTF8PROC_CATEGORY_CO:
  case UTF8PROC_CATEGORY_CN:
  case UTF8PROC_CATEGORY_ZL:
  case UTF8PROC_CATEGORY_ZP:
  case UTF8PROC_CATEGORY_ZS:
    return false;
  default:
    return true;
  }
}

bool is_identifier_start(char32_t c) noexcept {
  return c == '_' || is_alphabetic(c) || category(c) == UTF8PROC_CATEGORY_NL;
}

bool is_identifier_part(char32_t c) noexcept {
  const auto kind = category(c);
  return is_identifier_start(c) || kind == UTF8PROC_CATEGORY_MN || kind == UTF8PROC_CATEGORY_MC ||
         kind == UTF8PROC_CATEGORY_ND || kind == UTF8PROC_CATEGORY_PC || c == 0xb7;
}

std::string to_upper(std::string_view text) {
  return mapped(text, [](std::string& out, character c, std::size_t) { append_upper(out, c.code); });
}

std::string to_lower(std::string_view text) {
  return mapped(text, [&](std::string& out, character c, std::size_t at) { append_lower(out, text, at, c); });
}

std::string to_casefold(std::string_view text) {
  return mapped(text, [](std::string& out, character c, std::size_t) {
    std::array<utf8proc_int32_t, 8> folded{};
    int boundary = 0;
    const auto count =
        utf8proc_decompose_char(number(c.code), folded.data(), folded.size(), UTF8PROC_CASEFOLD, &boundary);
    for (utf8proc_ssize_t i = 0; i < count && i < 8; ++i)
      append_utf8(out, static_cast<char32_t>(folded[static_cast<std::size_t>(i)]));
  });
}

std::string swap_case(std::string_view text) {
  return mapped(text, [&](std::string& out, character c, std::size_t at) {
    if (is_upper(c.code))
      append_lower(out, text, at, c);
    else if (is_lower(c.code))
      append_upper(out, c.code);
    else
      append_utf8(out, c.code);
  });
}

std::string capitalize(std::string_view text) {
  return mapped(text, [&](std::string& out, character c, std::size_t at) {
    if (at == 0)
      append_title(out, c.code);
    else
      append_lower(out, text, at, c);
  });
}

std::string title_case(std::string_view text) {
  bool inside_word = false;
  return mapped(text, [&](std::string& out, character c, std::size_t at) {
    if (inside_word)
      append_lower(out, text, at, c);
    else
      append_title(out, c.code);
    inside_word = is_cased(c.code);
  });
}

} // namespace paceline::tokenizer::jinja
