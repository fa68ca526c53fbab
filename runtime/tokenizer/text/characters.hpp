#pragma once

namespace paceline::tokenizer {

/// Unicode's properties of one code point, as patterns of tokenizer files mean them.
bool is_number(char32_t code_point) noexcept;        ///< \p{N}
bool is_decimal_digit(char32_t code_point) noexcept; ///< \p{Nd}
bool is_mark(char32_t code_point) noexcept;          ///< \p{M}
bool is_space(char32_t code_point) noexcept;         ///< \s: the White_Space property

/// \w in Unicode's sense (UTS 18) and Rust's: alphabetic, marks, decimal digits, connectors, joiners.
bool is_word_character(char32_t code_point) noexcept;
/// \w in Oniguruma's: the numbers of Latin-1 too, no joiners.
bool is_oniguruma_word_character(char32_t code_point) noexcept;

} // namespace paceline::tokenizer
