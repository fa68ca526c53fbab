#include "protocol/wire/json_writer.hpp"

#include "runtime/base/utf8.hpp"

#include <array>
#include <charconv>
#include <cmath>

namespace paceline::wire {

namespace {

template <class Number, class... Format>
void append_number(std::string& out, Number number, Format... format) {
  std::array<char, 40> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number, format...).ptr;
  out.append(digits.data(), end);
}

/// True if the value is readable without an exponent.
template <class Float>
bool reads_plainly(Float number) {
  const auto size = std::abs(number);
  return size == 0 || (size >= Float{1e-6} && size < Float{1e15});
}

/// JSON has no infinities. OpenAI writes -9999 for the log-probability of an impossible token.
template <class Float>
void append_float(std::string& out, Float number) {
  if (!std::isfinite(number)) {
    out += number > 0 ? "9999.0" : "-9999.0";
    return;
  }
  const auto before = out.size();
  if (reads_plainly(number))
    append_number(out, number, std::chars_format::fixed);
  else
    append_number(out, number);
  if (out.find_first_of(".e", before) == std::string::npos) out += ".0";
}

void append_escape(std::string& out, unsigned code_point) {
  static constexpr char hex[] = "0123456789abcdef";
  out += "\\u";
  for (int shift = 12; shift >= 0; shift -= 4) out += hex[(code_point >> shift) & 15U];
}

/// Appends the escape of an ASCII character that needs one.
void append_ascii(std::string& out, char c) {
  switch (c) {
  case '"':
    out += "\\\"";
    break;
  case '\\':
    out += "\\\\";
    break;
  case '\n':
    out += "\\n";
    break;
  case '\r':
    out += "\\r";
    break;
  case '\t':
    out += "\\t";
    break;
  default:
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      append_escape(out, static_cast<unsigned char>(c));
    else
      out += c;
  }
}

bool splits_lines(std::string_view sequence) noexcept {
  return sequence == "\xc2\x85" || sequence == "\xe2\x80\xa8" || sequence == "\xe2\x80\xa9";
}

} // namespace

std::size_t count_code_points(std::string_view text) noexcept {
  std::size_t count = 0;
  for (const char c : text) count += is_utf8_continuation(c) ? 0 : 1;
  return count;
}

void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  append_escaped(out, text);
  out += '"';
}

void append_escaped(std::string& out, std::string_view text) {
  while (!text.empty()) {
    const auto length = utf8_length_at(text, 0);
    const auto sequence = text.substr(0, length == 0 ? 1 : length);
    if (length == 0)
      out += "\\ufffd";
    else if (length == 1)
      append_ascii(out, text.front());
    else if (splits_lines(sequence))
      append_escape(out, length == 2 ? 0x85U : sequence[2] == '\xa8' ? 0x2028U : 0x2029U);
    else
      out += sequence;
    text.remove_prefix(sequence.size());
  }
}

void json_writer::separate() {
  if (needs_comma_) text_ += ',';
  needs_comma_ = true;
}

json_writer& json_writer::open(char bracket) {
  separate();
  text_ += bracket;
  needs_comma_ = false;
  return *this;
}

json_writer& json_writer::close(char bracket) {
  text_ += bracket;
  needs_comma_ = true;
  return *this;
}

json_writer& json_writer::key(std::string_view name) {
  separate();
  append_json_string(text_, name);
  text_ += ':';
  needs_comma_ = false;
  return *this;
}

json_writer& json_writer::value(std::string_view text) {
  separate();
  append_json_string(text_, text);
  return *this;
}

json_writer& json_writer::value(float number) {
  separate();
  append_float(text_, number);
  return *this;
}

json_writer& json_writer::value(double number) {
  separate();
  append_float(text_, number);
  return *this;
}

json_writer& json_writer::integer(std::int64_t number) {
  separate();
  append_number(text_, number);
  return *this;
}

json_writer& json_writer::unsigned_integer(std::uint64_t number) {
  separate();
  append_number(text_, number);
  return *this;
}

json_writer& json_writer::begin_string() { return raw("\""); }

json_writer& json_writer::add_to_string(std::string_view text) {
  append_escaped(text_, text);
  return *this;
}

json_writer& json_writer::end_string() {
  text_ += '"';
  return *this;
}

json_writer& json_writer::raw(std::string_view json) {
  separate();
  text_ += json;
  return *this;
}

} // namespace paceline::wire
