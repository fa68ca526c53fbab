#pragma once

#include <string>
#include <string_view>

namespace paceline::tokenizer {

// Character sets as Oniguruma (the regex engine of Hugging Face's tokenizers) defines them, written as the
// contents of a PCRE2 bracket class.

// PCRE2's own \s also has U+180E, and its \w has all numbers (\p{N}) instead of decimal digits, and no marks.
inline constexpr std::string_view space_members =
    R"(\t-\r\x20\x85\xa0\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";
inline constexpr std::string_view word_members = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc})";
/// Outside bracket classes, Oniguruma also counts the Latin-1 numbers that are no digits (such as a half) as
/// word characters, in \w and in the test of \b.
inline constexpr std::string_view bare_word_members =
    R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\xb2\xb3\xb9\xbc-\xbe)";
inline constexpr std::string_view digit_members = R"(\p{Nd})";
inline constexpr std::string_view hex_digit_members = "0-9a-fA-F";

/// Members of [:name:]; empty for an unknown name.
std::string_view posix_class_members(std::string_view name) noexcept;

/// Members of \p{name}: a POSIX class, a general category by its short or long name, a binary property, or
/// else a script (Script, not Script_Extensions). Empty for an invalid name.
std::string property_members(std::string_view name);

} // namespace paceline::tokenizer
