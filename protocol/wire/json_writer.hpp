#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace paceline::wire {

/// Appends JSON to a string. Numbers print in their shortest exact form, without an exponent from 1e-6 to
/// 1e15. The output is always valid UTF-8 (an invalid sequence becomes U+FFFD). U+0085, U+2028 and U+2029 are
/// escaped, because some readers of streams take them for line ends. The writer adds commas; the caller must
/// nest values correctly.
class json_writer {
 public:
  json_writer& begin_object() { return open('{'); }
  json_writer& end_object() { return close('}'); }
  json_writer& begin_array() { return open('['); }
  json_writer& end_array() { return close(']'); }

  json_writer& key(std::string_view name);

  json_writer& value(std::string_view text);
  json_writer& value(const char* text) { return value(std::string_view(text)); }
  json_writer& value(bool flag) { return raw(flag ? "true" : "false"); }
  json_writer& value(float number);
  json_writer& value(double number);
  template <std::integral Int>
  json_writer& value(Int number) {
    if constexpr (std::signed_integral<Int>)
      return integer(static_cast<std::int64_t>(number));
    else
      return unsigned_integer(static_cast<std::uint64_t>(number));
  }
  json_writer& null() { return raw("null"); }
  /// Writes null for the empty string.
  json_writer& string_or_null(std::string_view text) { return text.empty() ? null() : value(text); }
  /// A string written in pieces, each of whole characters.
  json_writer& begin_string();
  json_writer& add_to_string(std::string_view text);
  json_writer& end_string();
  /// `json` must be one JSON value.
  json_writer& raw(std::string_view json);

  template <class T>
  json_writer& field(std::string_view name, const T& content) {
    return key(name).value(content);
  }

  /// Returns what was written since the last call; writing may continue.
  std::string take() { return std::exchange(text_, {}); }
  std::size_t size() const noexcept { return text_.size(); }

 private:
  json_writer& open(char bracket);
  json_writer& close(char bracket);
  json_writer& integer(std::int64_t number);
  json_writer& unsigned_integer(std::uint64_t number);
  void separate();

  std::string text_;
  bool needs_comma_ = false;
};

/// Appends `text` as a JSON string, quotes included.
void append_json_string(std::string& out, std::string_view text);

/// Appends `text` escaped, without quotes. A text may be appended in pieces, if each has whole characters.
void append_escaped(std::string& out, std::string_view text);

/// Number of code points; `text` must be well-formed UTF-8.
std::size_t count_code_points(std::string_view text) noexcept;

} // namespace paceline::wire
