#include "runtime/tokenizer/chat_template/syntax/literals.hpp"

#include "runtime/base/utf8.hpp"
#include "runtime/tokenizer/chat_template/python/numbers.hpp"
#include "runtime/tokenizer/chat_template/python/unicode.hpp"

#include <charconv>
#include <limits>

namespace paceline::tokenizer::jinja {

namespace {

bool is_plain_digit(char c) { return c >= '0' && c <= '9'; }

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }

/// End of digits with single underscores between them.
std::size_t end_of_digits(std::string_view text, std::size_t at, int base) {
  const auto digit_at = [&](std::size_t i) { return i < text.size() && digit_value(text[i]) < base; };
  while (digit_at(at) || (at < text.size() && text[at] == '_' && digit_at(at + 1))) ++at;
  return at;
}

std::string without_underscores(std::string_view spelling) {
  std::string digits;
  for (const char c : spelling)
    if (c != '_') digits += c;
  return digits;
}

int base_of_prefix(std::string_view spelling) {
  if (spelling.size() < 2 || spelling[0] != '0') return 10;
  switch (lower(spelling[1])) {
  case 'b':
    return 2;
  case 'o':
    return 8;
  case 'x':
    return 16;
  default:
    return 10;
  }
}

error bad_escape(std::string_view what) {
  return {errc::invalid_argument, "bad escape in a string: " + std::string(what)};
}

/// Reads exactly `count` hexadecimal digits.
std::optional<char32_t> read_hex(std::string_view text, std::size_t at, std::size_t count) {
  if (at + count > text.size()) return std::nullopt;
  char32_t code = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (digit_value(text[at + i]) >= 16) return std::nullopt;
    code = code * 16 + static_cast<char32_t>(digit_value(text[at + i]));
  }
  return code;
}

char simple_escape(char c) {
  switch (c) {
  case 'n':
    return '\n';
  case 't':
    return '\t';
  case 'r':
    return '\r';
  case 'a':
    return '\a';
  case 'b':
    return '\b';
  case 'f':
    return '\f';
  case 'v':
    return '\v';
  case '\\':
  case '\'':
  case '"':
    return c;
  default:
    return '\0';
  }
}

} // namespace

std::size_t end_of_real(std::string_view text, std::size_t at) {
  const std::size_t whole = end_of_digits(text, at, 10);
  std::size_t end = whole;
  bool is_real = false;
  if (end + 1 < text.size() && text[end] == '.' && is_plain_digit(text[end + 1])) {
    end = end_of_digits(text, end + 1, 10);
    is_real = true;
  }
  if (end < text.size() && lower(text[end]) == 'e') {
    std::size_t digits = end + 1;
    if (digits < text.size() && (text[digits] == '+' || text[digits] == '-')) ++digits;
    if (digits < text.size() && is_plain_digit(text[digits])) {
      end = end_of_digits(text, digits, 10);
      is_real = true;
    }
  }
  return is_real ? end : at;
}

std::size_t end_of_integer(std::string_view text, std::size_t at) {
  const int base = base_of_prefix(text.substr(at));
  if (base != 10) {
    const std::size_t digits = at + 2 < text.size() && text[at + 2] == '_' ? at + 3 : at + 2;
    const std::size_t end = end_of_digits(text, digits, base);
    if (end > digits) return end;
    return at + 1; // the zero alone
  }
  if (text[at] == '0') return end_of_digits(text, at, 1); // only zeros may follow
  return end_of_digits(text, at, 10);
}

double parse_real(std::string_view spelling) {
  const std::string digits = without_underscores(spelling);
  double number = 0;
  const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (result.ec != std::errc::result_out_of_range) return number;
  // Too large values become infinite, too small ones zero; a negative exponent tells which.
  return digits.find('-') == std::string::npos ? std::numeric_limits<double>::infinity() : 0.0;
}

std::optional<wide_int> parse_integer(std::string_view spelling) {
  const int base = base_of_prefix(spelling);
  wide_int number = 0;
  for (const char c : spelling.substr(base == 10 ? 0 : 2)) {
    if (c == '_') continue;
    if (__builtin_mul_overflow(number, wide_int{base}, &number) ||
        __builtin_add_overflow(number, wide_int{digit_value(c)}, &number))
      return std::nullopt;
  }
  return number;
}

expected<std::string> unescaped(std::string_view spelling) {
  std::string text;
  for (std::size_t at = 0; at < spelling.size();) {
    if (spelling[at] != '\\') {
      text += spelling[at++];
      continue;
    }
    const char c = at + 1 < spelling.size() ? spelling[at + 1] : '\0';
    if (const char meant = simple_escape(c); meant != '\0') {
      text += meant;
      at += 2;
    } else if (c == '\n') { // a line continued
      at += 2;
    } else if (c == 'x' || c == 'u' || c == 'U') {
      const std::size_t count = c == 'x' ? 2 : c == 'u' ? 4 : 8;
      const auto code = read_hex(spelling, at + 2, count);
      if (!code || *code > 0x10ffff) return bad_escape("\\x, \\u and \\U need 2, 4 and 8 hexadecimal digits");
      if (*code >= 0xd800 && *code < 0xe000) return bad_escape("a lone surrogate is no character");
      append_utf8(text, *code);
      at += 2 + count;
    } else if (c >= '0' && c <= '7') {
      char32_t code = 0;
      std::size_t end = at + 1;
      for (; end < spelling.size() && end < at + 4 && spelling[end] >= '0' && spelling[end] <= '7'; ++end)
        code = code * 8 + static_cast<char32_t>(spelling[end] - '0');
      append_utf8(text, code);
      at = end;
    } else if (c == 'N') {
      return bad_escape("\\N{name} is not offered");
    } else { // unknown escapes stand for themselves
      text += '\\';
      ++at;
    }
  }
  return text;
}

} // namespace paceline::tokenizer::jinja
