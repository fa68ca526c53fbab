#include "runtime/base/utf8.hpp"
#include "runtime/tokenizer/chat_template/python/format.hpp"
#include "runtime/tokenizer/chat_template/python/operators.hpp"
#include "runtime/tokenizer/chat_template/python/printing.hpp"
#include "runtime/tokenizer/chat_template/python/unicode.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

namespace paceline::tokenizer::jinja {

namespace {

/// [[fill]align][sign][#][0][width][grouping][.precision][type]
struct specification {
  std::string fill = " ";
  char align = 0; ///< 0: the type's own
  char sign = 0;  ///< 0: not given, which for numbers means '-'
  bool alternate = false;
  char grouping = 0;
  std::size_t width = 0;
  std::optional<int> precision;
  char type = 0;
};

constexpr int max_precision = 4096;

bool is_alignment(char c) { return c == '<' || c == '>' || c == '=' || c == '^'; }

std::size_t parse_number(std::string_view text, std::size_t& at) {
  std::size_t number = 0;
  for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at) {
    if (number > (std::size_t{1} << 50)) fail("too many digits in format string");
    number = number * 10 + static_cast<std::size_t>(text[at] - '0');
  }
  return number;
}

bool take(std::string_view text, std::size_t& at, char wanted) {
  if (at >= text.size() || text[at] != wanted) return false;
  ++at;
  return true;
}

specification parse(runtime& rt, std::string_view text) {
  specification spec;
  std::size_t at = 0;
  const std::size_t first = text.empty() ? 0 : character_at(text, 0).size;
  if (first < text.size() && is_alignment(text[first])) {
    spec.fill = text.substr(0, first);
    spec.align = text[first];
    at = first + 1;
  } else if (!text.empty() && is_alignment(text[0])) {
    spec.align = text[0];
    at = 1;
  }
  if (at < text.size() && (text[at] == '+' || text[at] == '-' || text[at] == ' ')) spec.sign = text[at++];
  (void)take(text, at, 'z');
  spec.alternate = take(text, at, '#');
  if (take(text, at, '0') && spec.align == 0) {
    spec.fill = "0";
    spec.align = '0'; // '=' for numbers, the usual alignment for text
  }
  spec.width = parse_number(text, at);
  if (at < text.size() && (text[at] == ',' || text[at] == '_')) spec.grouping = text[at++];
  if (take(text, at, '.')) {
    const std::size_t start = at;
    const std::size_t precision = parse_number(text, at);
    if (at == start) fail("Format specifier missing precision");
    if (precision > max_precision) fail_limit("a format precision above 4096 is not offered");
    spec.precision = static_cast<int>(precision);
  }
  if (at < text.size()) spec.type = text[at++];
  if (at != text.size()) fail("Invalid format specifier '" + std::string(text) + "'");
  rt.memory.require(spec.width * spec.fill.size());
  return spec;
}

std::string padded(const specification& spec, std::string_view text, char default_align) {
  const std::size_t length = num_characters(text);
  if (length >= spec.width) return std::string(text);
  const std::size_t missing = spec.width - length;
  const char align = spec.align == 0 || spec.align == '0' ? default_align : spec.align;
  const std::size_t left = align == '<' ? 0 : align == '^' ? missing / 2 : missing;
  std::string out;
  for (std::size_t i = 0; i < left; ++i) out += spec.fill;
  out += text;
  for (std::size_t i = left; i < missing; ++i) out += spec.fill;
  return out;
}

std::string grouped(std::string_view digits, char separator, std::size_t group) {
  std::string out;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % group == 0) out += separator;
    out += digits[i];
  }
  return out;
}

/// `digits`: the part before the point; `rest`: what follows; `sign` and `prefix` precede the padding of '='.
std::string assemble(const specification& spec, const std::string& sign, std::string digits,
                     const std::string& rest) {
  const bool inner = spec.align == '=' || spec.align == '0';
  const std::size_t group =
      spec.grouping == '_' && (spec.type == 'x' || spec.type == 'X' || spec.type == 'o' || spec.type == 'b')
          ? 4
          : 3;
  const auto body = [&] { return spec.grouping != 0 ? grouped(digits, spec.grouping, group) : digits; };
  if (!inner) return padded(spec, sign + body() + rest, '>');
  if (spec.fill == "0" && spec.grouping != 0) {
    while (sign.size() + body().size() + rest.size() < spec.width) digits.insert(0, 1, '0');
    return sign + body() + rest;
  }
  std::string filler;
  const std::string shown = body();
  for (std::size_t used = sign.size() + shown.size() + rest.size(); used < spec.width; ++used)
    filler += spec.fill;
  return sign + filler + shown + rest;
}

std::string sign_of(const specification& spec, bool negative) {
  if (negative) return "-";
  return spec.sign == 0 || spec.sign == '-' ? "" : std::string(1, spec.sign);
}

std::string digits_in_base(wide_int magnitude, int base, bool upper) {
  const char* alphabet = upper ? "0123456789ABCDEF" : "0123456789abcdef";
  std::string digits;
  do {
    digits += alphabet[static_cast<int>(magnitude % base)];
    magnitude /= base;
  } while (magnitude != 0);
  std::reverse(digits.begin(), digits.end());
  return digits;
}

std::string format_integer(const specification& spec, wide_int number) {
  if (spec.precision) fail("Precision not allowed in integer format specifier");
  const bool negative = number < 0;
  std::string sign = sign_of(spec, negative);
  std::string digits = negative ? integer_text(number).substr(1) : integer_text(number);
  const wide_int magnitude = negative ? -(number + 1) : number; // never overflows; unused for decimal
  switch (spec.type) {
  case 0:
  case 'd':
  case 'n':
    break;
  case 'b':
  case 'o':
  case 'x':
  case 'X': {
    const int base = spec.type == 'b' ? 2 : spec.type == 'o' ? 8 : 16;
    if (negative && magnitude < 0) fail("integer is too large to format");
    digits = digits_in_base(negative ? magnitude + 1 : magnitude, base, spec.type == 'X');
    if (spec.alternate) sign += std::string("0") + spec.type;
    break;
  }
  case 'c': {
    if (number < 0 || number > 0x10ffff) fail("%c arg not in range(0x110000)");
    std::string text;
    append_utf8(text, static_cast<char32_t>(number));
    return padded(spec, text, '<');
  }
  default:
    fail(std::string("Unknown format code '") + spec.type + "' for object of type 'int'");
  }
  return assemble(spec, sign, digits, "");
}

std::string general_text(double magnitude, int precision, bool alternate) {
  const int digits = precision == 0 ? 1 : precision;
  const std::string scientific = scientific_text(magnitude, digits - 1);
  int exponent = 0;
  const std::size_t mark = scientific.find('e');
  const std::size_t start = mark + (scientific[mark + 1] == '+' ? 2 : 1);
  std::from_chars(scientific.data() + start, scientific.data() + scientific.size(), exponent);
  const bool fixed = exponent >= -4 && exponent < digits;
  std::string text = fixed ? fixed_text(magnitude, digits - 1 - exponent) : scientific.substr(0, mark);
  if (!alternate && text.find('.') != std::string::npos) {
    text.erase(text.find_last_not_of('0') + 1);
    if (text.back() == '.') text.pop_back();
  }
  return fixed ? text : text + scientific.substr(mark);
}

/// No type letter: repr's digits, or like 'g' but with at least one digit after the point.
std::string default_real_text(const specification& spec, double magnitude) {
  if (!spec.precision) return real_text(magnitude);
  std::string text = general_text(magnitude, *spec.precision, false);
  const bool has_exponent = text.find('e') != std::string::npos;
  if (has_exponent || text.find('.') != std::string::npos) return text;
  // Python switches to an exponent one digit earlier here, to have room for ".0".
  if (static_cast<int>(text.size()) >= std::max(*spec.precision, 1) && magnitude >= 10) {
    std::string scientific = scientific_text(magnitude, std::max(*spec.precision, 1) - 1);
    const std::size_t mark = scientific.find('e');
    std::string head = scientific.substr(0, mark);
    if (head.find('.') != std::string::npos) {
      head.erase(head.find_last_not_of('0') + 1);
      if (head.back() == '.') head.pop_back();
    }
    return head + scientific.substr(mark);
  }
  return text + ".0";
}

std::string format_real(const specification& spec, double number) {
  const bool negative = std::signbit(number) && !std::isnan(number);
  const double magnitude = std::fabs(number);
  const int precision = spec.precision.value_or(6);
  std::string text;
  if (!std::isfinite(number)) {
    text = std::isnan(number) ? "nan" : "inf";
    if (spec.type == '%') text += '%';
  } else {
    switch (spec.type) {
    case 0:
      text = default_real_text(spec, magnitude);
      break;
    case 'e':
    case 'E':
      text = scientific_text(magnitude, precision);
      break;
    case 'f':
    case 'F':
      text = fixed_text(magnitude, precision);
      break;
    case 'g':
    case 'G':
    case 'n':
      text = general_text(magnitude, precision, spec.alternate);
      break;
    case '%':
      text = fixed_text(magnitude * 100, precision) + "%";
      break;
    default:
      fail(std::string("Unknown format code '") + spec.type + "' for object of type 'float'");
    }
  }
  if (spec.type == 'E' || spec.type == 'F' || spec.type == 'G')
    std::transform(text.begin(), text.end(), text.begin(),
                   [](char c) { return c >= 'a' && c <= 'z' ? c - 32 : c; });
  const std::size_t whole = std::min(text.find_first_not_of("0123456789"), text.size());
  return assemble(spec, sign_of(spec, negative), text.substr(0, whole), text.substr(whole));
}

std::string format_text(const specification& spec, std::string_view text) {
  if (spec.type != 0 && spec.type != 's')
    fail(std::string("Unknown format code '") + spec.type + "' for object of type 'str'");
  if (spec.sign != 0) fail("Sign not allowed in string format specifier");
  if (spec.alternate) fail("Alternate form (#) not allowed in string format specifier");
  if (spec.grouping != 0) fail(std::string("Cannot specify '") + spec.grouping + "' with 's'.");
  if (spec.align == '=') fail("'=' alignment not allowed in string format specifier");
  if (spec.precision) text = text.substr(0, byte_offset(text, static_cast<std::size_t>(*spec.precision)));
  return padded(spec, text, '<');
}

} // namespace

std::string format_value(runtime& rt, const value& v, std::string_view text) {
  if (text.empty()) return str(rt, v);
  if (v.is_string()) return format_text(parse(rt, text), v.text());
  if (!v.is_number())
    fail("unsupported format string passed to " + std::string(type_name(v)) + ".__format__");
  const specification spec = parse(rt, text);
  const bool real_type =
      spec.type != 0 && std::string_view("eEfFgG%").find(spec.type) != std::string_view::npos;
  if (v.is_integral() && !real_type) return format_integer(spec, v.integer());
  return format_real(spec, as_real(v));
}

} // namespace paceline::tokenizer::jinja
