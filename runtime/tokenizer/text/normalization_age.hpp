#pragma once

namespace paceline::tokenizer {

// The normalizers of tokenizer files were made with Unicode 9's tables and must behave like these.

/// True for marks and characters with decompositions that were added after Unicode 9. These normalizers treat
/// them as ordinary letters, which are neither reordered nor combined.
bool is_younger_than_normalizers(char32_t code_point) noexcept;

/// \p{M} of Unicode 9.
bool is_mark_of_normalizers(char32_t code_point) noexcept;

} // namespace paceline::tokenizer
