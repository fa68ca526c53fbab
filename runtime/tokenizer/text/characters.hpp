#pragma once

namespace paceline::tokenizer {

/// Unicode properties of one code point, as patterns of tokenizer files use them.
bool is_number(char32_t code_point) noexcept;        ///< \p{N}
bool is_decimal_digit(char32_t code_point) noexcept; ///< \p{Nd}
bool is_mark(char32_t code_point) noexcept;          ///< \p{M}
bool is_space(char32_t code_point) noexcept;         ///< \s: the White_Space property

/// \w as defined by Unicode (UTS 18) and Rust: alphabetic, marks, decimal digits, connectors, joiners.
bool is_word_character(char32_t code_point) noexcept;
/// \w as defined by Oniguruma: with the numbers of Latin-1, without joiners.
bool is_oniguruma_word_character(char32_t code_point) noexcept;

} // namespace paceline::tokenizer
