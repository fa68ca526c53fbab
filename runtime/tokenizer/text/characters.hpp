#pragma once

namespace paceline::tokenizer {

/// Unicode's properties of one code point, as patterns of tokenizer files mean them.
bool is_number(char32_t code_point) noexcept;         ///< \p{N}
bool is_mark(char32_t code_point) noexcept;           ///< \p{M}
bool is_space(char32_t code_point) noexcept;          ///< \s: the White_Space property
bool is_word_character(char32_t code_point) noexcept; ///< \w: alphabetic, marks, decimal digits, connectors

} // namespace paceline::tokenizer
