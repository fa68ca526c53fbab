#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace paceline::tokenizer {

/// The alphabet of byte-level BPE (Radford et al. 2019): every byte is spelled as one printable character, so
/// that vocabularies are text. Bytes that are printable in Latin-1 are spelled as their Latin-1 character;
/// the other 68 are spelled as U+0100 and up, in order.

/// Appends the spelling of `bytes`.
void append_byte_spelling(std::string& out, std::string_view bytes);

/// The byte that a character spells; nullopt if it is not in the alphabet.
std::optional<std::uint8_t> spelt_byte(char32_t character) noexcept;

/// The bytes that `spelling` (UTF-8) spells; nullopt if one of its characters is not in the alphabet.
std::optional<std::string> spelt_bytes(std::string_view spelling);

/// The byte named by "<0xHH>"; nullopt for any other spelling.
std::optional<std::uint8_t> hex_spelt_byte(std::string_view spelling) noexcept;

/// "<0xHH>".
std::string hex_byte_spelling(std::uint8_t byte);

} // namespace paceline::tokenizer
