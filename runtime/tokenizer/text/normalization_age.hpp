#pragma once

namespace paceline::tokenizer {

// The normalizers of tokenizer files were made with Unicode 9's tables, and files mean what those say.

/// Marks and characters with a decomposition that came later: to these normalizers they are letters like any
/// other, which neither move nor combine.
bool is_younger_than_normalizers(char32_t code_point) noexcept;

/// \p{M} of Unicode 9.
bool is_mark_of_normalizers(char32_t code_point) noexcept;

} // namespace paceline::tokenizer
