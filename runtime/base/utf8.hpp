#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace paceline {

/// U+FFFD, which replaces ill-formed bytes.
inline constexpr std::string_view replacement_character = "\xef\xbf\xbd";

/// What a byte string has at one place: a character, or bytes that are none.
struct utf8_unit {
  enum class state : std::uint8_t {
    complete,   ///< one well-formed character
    ill_formed, ///< bytes that are no character, together replaced by one U+FFFD
    cut_off,    ///< the text ends inside a sequence that more bytes could complete to a character
  };
  state kind = state::complete;
  std::uint8_t num_bytes = 1; ///< at least 1
  char32_t code_point = 0;    ///< of a complete character
};

/// `read_utf8` for a character that is not ASCII.
utf8_unit read_long_utf8(std::string_view text, std::size_t at) noexcept;

/// Reads the character at `at` (< text.size()). Ill-formed bytes are grouped as Unicode recommends ("maximal
/// subpart", section 3.9), like Python's errors="replace".
inline utf8_unit read_utf8(std::string_view text, std::size_t at) noexcept {
  const auto lead = static_cast<unsigned char>(text[at]);
  if (lead < 0x80) return {utf8_unit::state::complete, 1, lead};
  return read_long_utf8(text, at);
}

/// Number of bytes of the well-formed character at `at` (< text.size()); 0 if there is none.
inline std::size_t utf8_length_at(std::string_view text, std::size_t at) noexcept {
  const auto unit = read_utf8(text, at);
  return unit.kind == utf8_unit::state::complete ? unit.num_bytes : 0;
}

/// Number of bytes of the character that begins with `lead`, in well-formed text.
constexpr std::size_t utf8_length(char lead) noexcept {
  const auto byte = static_cast<unsigned char>(lead);
  return byte < 0x80 ? 1 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
}

constexpr bool is_utf8_continuation(char byte) noexcept {
  return (static_cast<unsigned char>(byte) & 0xc0) == 0x80;
}

/// Appends a code point (at most U+10FFFF).
void append_utf8(std::string& out, char32_t code_point);

bool is_well_formed_utf8(std::string_view text) noexcept;

/// `text` with ill-formed bytes replaced by U+FFFD, like Python's bytes.decode("utf-8", errors="replace").
std::string replace_ill_formed_utf8(std::string_view text);

} // namespace paceline
