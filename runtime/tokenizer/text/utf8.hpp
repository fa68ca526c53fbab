#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace paceline::tokenizer {

/// U+FFFD, what ill-formed bytes become.
inline constexpr std::string_view replacement_character = "\xef\xbf\xbd";

/// What stands at one place of a byte string.
struct utf8_unit {
  enum class state : std::uint8_t {
    complete,   ///< one well-formed character
    ill_formed, ///< bytes that begin no character; one U+FFFD stands for all of them
    cut_off,    ///< the text ends inside what may still become a character
  };
  state kind = state::complete;
  std::uint8_t num_bytes = 1; ///< at least 1
  char32_t code_point = 0;    ///< of a complete character
};

/// Reads the character at `at` (< text.size()). Ill-formed bytes are grouped as Unicode recommends ("maximal
/// subpart", section 3.9) and as Python's errors="replace" does.
utf8_unit read_utf8(std::string_view text, std::size_t at) noexcept;

/// Bytes of the character that begins with `lead` in well-formed text.
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

/// `text` with ill-formed bytes replaced by U+FFFD, as bytes.decode("utf-8", errors="replace") gives it.
std::string replace_ill_formed_utf8(std::string_view text);

} // namespace paceline::tokenizer
