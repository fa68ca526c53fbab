#include "runtime/tokenizer/text/byte_alphabet.hpp"

#include "runtime/base/utf8.hpp"

#include <array>

namespace paceline::tokenizer {

namespace {

constexpr bool spells_itself(unsigned byte) noexcept {
  return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

struct alphabet {
  std::array<char32_t, 256> character{};
  std::array<std::int16_t, 0x144> byte{}; ///< by character; -1: not in the alphabet
};

constexpr alphabet make_alphabet() noexcept {
  alphabet result;
  result.byte.fill(-1);
  char32_t next = 0x100;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const char32_t character = spells_itself(byte) ? byte : next++;
    result.character[byte] = character;
    result.byte[character] = static_cast<std::int16_t>(byte);
  }
  return result;
}

constexpr alphabet letters = make_alphabet();
constexpr std::string_view hex_digits = "0123456789ABCDEF";

std::optional<unsigned> hex_value(char digit) noexcept {
  if (digit >= 'a' && digit <= 'f') digit = static_cast<char>(digit - 'a' + 'A');
  const auto at = hex_digits.find(digit);
  return at == std::string_view::npos ? std::nullopt : std::optional<unsigned>(static_cast<unsigned>(at));
}

} // namespace

void append_byte_spelling(std::string& out, std::string_view bytes) {
  for (const char byte : bytes) append_utf8(out, letters.character[static_cast<unsigned char>(byte)]);
}

std::optional<std::uint8_t> spelt_byte(char32_t character) noexcept {
  if (character >= letters.byte.size() || letters.byte[character] < 0) return std::nullopt;
  return static_cast<std::uint8_t>(letters.byte[character]);
}

std::optional<std::string> spelt_bytes(std::string_view spelling) {
  std::string out;
  out.reserve(spelling.size());
  for (std::size_t at = 0; at < spelling.size();) {
    const utf8_unit unit = read_utf8(spelling, at);
    const auto byte = spelt_byte(unit.code_point);
    if (unit.kind != utf8_unit::state::complete || !byte) return std::nullopt;
    out.push_back(static_cast<char>(*byte));
    at += unit.num_bytes;
  }
  return out;
}

std::optional<std::uint8_t> hex_spelt_byte(std::string_view spelling) noexcept {
  if (spelling.size() != 6 || !spelling.starts_with("<0x") || spelling[5] != '>') return std::nullopt;
  const auto high = hex_value(spelling[3]);
  const auto low = hex_value(spelling[4]);
  if (!high || !low) return std::nullopt;
  return static_cast<std::uint8_t>(*high * 16 + *low);
}

std::string hex_byte_spelling(std::uint8_t byte) {
  return std::string("<0x") + hex_digits[byte >> 4] + hex_digits[byte & 15] + '>';
}

} // namespace paceline::tokenizer
