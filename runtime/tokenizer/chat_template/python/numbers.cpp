#include "runtime/tokenizer/chat_template/python/numbers.hpp"

#include "runtime/tokenizer/chat_template/python/printing.hpp"
#include "runtime/tokenizer/chat_template/python/unicode.hpp"

#include <charconv>
#include <cmath>
#include <limits>
#include <string>

namespace paceline::tokenizer::jinja {

namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }

int base_of_letter(char c) {
  switch (lower(c)) {
  case 'b':
    return 2;
  case 'o':
    return 8;
  case 'x':
    return 16;
  default:
    return 0;
  }
}

/// Removes underscores between digits; none if there is one elsewhere.
std::optional<std::string> without_underscores(std::string_view text) {
  std::string digits;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      digits += text[i];
      continue;
    }
    const bool between =
        i > 0 && i + 1 < text.size() && digit_value(text[i - 1]) < 10 && digit_value(text[i + 1]) < 10;
    if (!between) return std::nullopt;
  }
  return digits;
}

bool equals_ignoring_case(std::string_view text, std::string_view word) {
  if (text.size() != word.size()) return false;
  for (std::size_t i = 0; i < text.size(); ++i)
    if (lower(text[i]) != word[i]) return false;
  return true;
}

} // namespace

int digit_value(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  c = lower(c);
  return c >= 'a' && c <= 'z' ? c - 'a' + 10 : 99;
}

std::optional<wide_int> integer_of_text(std::string_view text, wide_int base) {
  if (base != 0 && (base < 2 || base > 36)) return std::nullopt;
  text = without_trailing_blanks(without_leading_blanks(text));
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  const int prefix = text.size() > 1 && text[0] == '0' ? base_of_letter(text[1]) : 0;
  if (prefix != 0 && (base == 0 || base == prefix)) {
    text.remove_prefix(2);
    if (text.starts_with('_')) text.remove_prefix(1);
    base = prefix;
  }
  const bool leading_zero = base == 0 && text.size() > 1 && text[0] == '0';
  if (base == 0) base = 10;
  if (text.empty()) return std::nullopt;
  wide_int number = 0;
  bool after_digit = false;
  for (const char c : text) {
    if (c == '_' && after_digit) {
      after_digit = false;
      continue;
    }
    const int digit = digit_value(c);
    if (digit >= base) return std::nullopt;
    if (__builtin_mul_overflow(number, base, &number) ||
        __builtin_add_overflow(number, wide_int{digit}, &number))
      return std::nullopt;
    after_digit = true;
  }
  if (!after_digit || (leading_zero && number != 0)) return std::nullopt;
  return negative ? -number : number;
}

std::optional<double> real_of_text(std::string_view text) {
  text = without_trailing_blanks(without_leading_blanks(text));
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  const auto digits = without_underscores(text);
  if (!digits || digits->empty()) return std::nullopt;
  const double sign = negative ? -1.0 : 1.0;
  if (equals_ignoring_case(*digits, "inf") || equals_ignoring_case(*digits, "infinity"))
    return sign * std::numeric_limits<double>::infinity();
  if (equals_ignoring_case(*digits, "nan")) return std::numeric_limits<double>::quiet_NaN();
  if (digit_value((*digits)[0]) >= 10 && (*digits)[0] != '.') return std::nullopt;
  double number = 0;
  const char* end = digits->data() + digits->size();
  const auto result = std::from_chars(digits->data(), end, number);
  if (result.ptr != end || result.ec == std::errc::invalid_argument) return std::nullopt;
  if (result.ec == std::errc::result_out_of_range)
    number = digits->find("e-") == std::string::npos ? std::numeric_limits<double>::infinity() : 0.0;
  return sign * number;
}

std::optional<value> truncated(double number) {
  if (!std::isfinite(number) || std::fabs(number) >= 1.7e38) return std::nullopt;
  return value::of_integer(static_cast<wide_int>(number));
}

double rounded(double number, wide_int precision) {
  if (!std::isfinite(number) || number == 0 || precision > 340) return number;
  if (precision < -310) return std::copysign(0.0, number);
  if (precision >= 0) return real_of_text(fixed_text(number, static_cast<int>(precision))).value_or(number);
  // Digits before the point: round the exact integer part by its decimal text.
  const double scale = std::pow(10.0, static_cast<double>(-precision));
  return std::nearbyint(number / scale) * scale;
}

wide_int rounded(wide_int number, wide_int precision) {
  if (precision >= 0) return number;
  if (precision < -37) return 0; // a unit of 10^38 or more; nearly all numbers are below half of it
  wide_int unit = 1;
  for (wide_int i = 0; i > precision; --i) unit *= 10;
  wide_int rest = number % unit;
  if (rest < 0) rest += unit;
  const wide_int below = number - rest;
  const bool odd = (below / unit) % 2 != 0;
  return rest * 2 > unit || (rest * 2 == unit && odd) ? below + unit : below;
}

} // namespace paceline::tokenizer::jinja
