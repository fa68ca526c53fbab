#include "runtime/tokenizer/chat_template/python/printing.hpp"

#include "runtime/tokenizer/chat_template/python/unicode.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace paceline::tokenizer::jinja {

namespace {

constexpr char hex_digits[] = "0123456789abcdef";

void append_hex(std::string& out, char32_t code, int num_digits) {
  for (int shift = 4 * (num_digits - 1); shift >= 0; shift -= 4) out += hex_digits[(code >> shift) & 0xf];
}

void append_escaped_character(std::string& out, char32_t c) {
  switch (c) {
  case '\n':
    out += "\\n";
    return;
  case '\r':
    out += "\\r";
    return;
  case '\t':
    out += "\\t";
    return;
  default:
    break;
  }
  out += c <= 0xff ? "\\x" : c <= 0xffff ? "\\u" : "\\U";
  append_hex(out, c, c <= 0xff ? 2 : c <= 0xffff ? 4 : 8);
}

void append_quoted(std::string& out, std::string_view text) {
  const bool has_single = text.find('\'') != std::string_view::npos;
  const char quote = has_single && text.find('"') == std::string_view::npos ? '"' : '\'';
  out += quote;
  for_each_character(text, [&](character c, std::size_t at) {
    if (c.code == '\\' || c.code == static_cast<char32_t>(quote)) {
      out += '\\';
      out += static_cast<char>(c.code);
    } else if (is_printable(c.code)) {
      out += text.substr(at, c.size);
    } else {
      append_escaped_character(out, c.code);
    }
  });
  out += quote;
}

void append_items(runtime& rt, std::string& out, const std::vector<value>& items) {
  bool first = true;
  for (const value& item : items) {
    if (!first) out += ", ";
    first = false;
    append_repr(rt, out, item);
  }
}

void append_entries(runtime& rt, std::string& out, const dict_object& dict) {
  out += '{';
  bool first = true;
  for (const auto& [key, item] : dict.entries()) {
    if (!first) out += ", ";
    first = false;
    append_repr(rt, out, key);
    out += ": ";
    append_repr(rt, out, item);
  }
  out += '}';
}

void append_view(runtime& rt, std::string& out, const dict_view_object& view) {
  using part = dict_view_object::part;
  out += view.shows == part::keys     ? "dict_keys(["
         : view.shows == part::values ? "dict_values(["
                                      : "dict_items([";
  bool first = true;
  for (const auto& [key, item] : view.dict->entries()) {
    if (!first) out += ", ";
    first = false;
    if (view.shows == part::items) out += '(';
    if (view.shows != part::values) append_repr(rt, out, key);
    if (view.shows == part::items) out += ", ";
    if (view.shows != part::keys) append_repr(rt, out, item);
    if (view.shows == part::items) out += ')';
  }
  out += "])";
}

void append_range(std::string& out, const range_object& range) {
  out += "range(" + integer_text(range.start) + ", " + integer_text(range.stop);
  if (range.step != 1) out += ", " + integer_text(range.step);
  out += ')';
}

/// Digits without a point, and the power of ten of the first.
struct decimal {
  std::string digits;
  int exponent = 0;
};

decimal shortest_decimal(double magnitude) {
  std::array<char, 64> buffer{};
  const auto end =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), magnitude, std::chars_format::scientific);
  const std::string_view text(buffer.data(), static_cast<std::size_t>(end.ptr - buffer.data()));
  const std::size_t mark = text.find('e');
  decimal result;
  for (const char c : text.substr(0, mark))
    if (c != '.') result.digits += c;
  const bool plus = text[mark + 1] == '+';
  std::from_chars(text.data() + mark + (plus ? 2 : 1), text.data() + text.size(), result.exponent);
  return result;
}

std::string exponent_text(int exponent) {
  std::string text = exponent < 0 ? "e-" : "e+";
  const int magnitude = exponent < 0 ? -exponent : exponent;
  if (magnitude < 10) text += '0';
  return text + std::to_string(magnitude);
}

std::string non_finite_text(double number) {
  if (std::isnan(number)) return "nan";
  return number < 0 ? "-inf" : "inf";
}

std::string converted(double number, std::chars_format format, int precision) {
  std::string buffer(static_cast<std::size_t>(precision) + 400,
                     '\0'); // a double has at most 309 digits before the point
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), number, format, precision);
  buffer.resize(static_cast<std::size_t>(end.ptr - buffer.data()));
  return buffer;
}

} // namespace

std::string integer_text(wide_int number) {
  __extension__ using wide_unsigned = unsigned __int128;
  auto rest = static_cast<wide_unsigned>(number);
  if (number < 0) rest = -rest;
  std::string digits;
  do {
    digits += static_cast<char>('0' + static_cast<int>(rest % 10));
    rest /= 10;
  } while (rest != 0);
  if (number < 0) digits += '-';
  std::reverse(digits.begin(), digits.end());
  return digits;
}

std::string real_text(double number) {
  if (!std::isfinite(number)) return non_finite_text(number);
  const std::string sign = std::signbit(number) ? "-" : "";
  if (number == 0) return sign + "0.0";
  const auto [digits, exponent] = shortest_decimal(std::fabs(number));
  const int count = static_cast<int>(digits.size());
  if (exponent < -4 || exponent >= 16) {
    const std::string fraction = count > 1 ? "." + digits.substr(1) : "";
    return sign + digits[0] + fraction + exponent_text(exponent);
  }
  if (exponent < 0) return sign + "0." + std::string(static_cast<std::size_t>(-exponent - 1), '0') + digits;
  if (count <= exponent + 1)
    return sign + digits + std::string(static_cast<std::size_t>(exponent + 1 - count), '0') + ".0";
  const auto whole = static_cast<std::size_t>(exponent + 1);
  return sign + digits.substr(0, whole) + "." + digits.substr(whole);
}

std::string fixed_text(double number, int precision) {
  if (!std::isfinite(number)) return non_finite_text(number);
  return converted(number, std::chars_format::fixed, precision);
}

std::string scientific_text(double number, int precision) {
  if (!std::isfinite(number)) return non_finite_text(number);
  return converted(number, std::chars_format::scientific, precision);
}

void append_repr(runtime& rt, std::string& out, const value& v) {
  rt.memory.step();
  rt.memory.require(out.size());
  const nesting_guard guard(rt);
  switch (v.type()) {
  case value_type::missing:
  case value_type::undefined:
    out += "Undefined";
    return;
  case value_type::none:
    out += "None";
    return;
  case value_type::boolean:
    out += v.boolean() ? "True" : "False";
    return;
  case value_type::integer:
    out += integer_text(v.integer());
    return;
  case value_type::real:
    out += real_text(v.real());
    return;
  case value_type::string:
    rt.memory.scan(v.text().size());
    if (v.markup()) out += "Markup(";
    append_quoted(out, v.text());
    if (v.markup()) out += ')';
    return;
  case value_type::list:
    out += '[';
    append_items(rt, out, v.as<list_object>().items);
    out += ']';
    return;
  case value_type::tuple:
    out += '(';
    append_items(rt, out, v.as<list_object>().items);
    out += v.as<list_object>().items.size() == 1 ? ",)" : ")";
    return;
  case value_type::dict:
    append_entries(rt, out, v.as<dict_object>());
    return;
  case value_type::dict_view:
    append_view(rt, out, v.as<dict_view_object>());
    return;
  case value_type::range:
    append_range(out, v.as<range_object>());
    return;
  case value_type::name_space:
    out += "<Namespace ";
    append_entries(rt, out, *v.as<namespace_object>().attributes);
    out += '>';
    return;
  default:
    out += v.held()->describe(rt);
    return;
  }
}

void append_str(runtime& rt, std::string& out, const value& v) {
  if (v.is_undefined() || v.is_missing()) return;
  if (!v.is_string()) {
    append_repr(rt, out, v);
    return;
  }
  rt.memory.require(out.size() + v.text().size());
  out += v.text();
}

std::string str(runtime& rt, const value& v) {
  std::string text;
  append_str(rt, text, v);
  return text;
}

std::string repr(runtime& rt, const value& v) {
  std::string text;
  append_repr(rt, text, v);
  return text;
}

std::string_view str_view(runtime& rt, const value& v) {
  return v.is_string() ? v.text() : rt.memory.keep_view(str(rt, v));
}

} // namespace paceline::tokenizer::jinja
