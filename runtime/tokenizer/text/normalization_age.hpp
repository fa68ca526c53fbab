#pragma once

namespace paceline::tokenizer {

// The normalizers of Hugging Face's tokenizers use the tables of Unicode 9. With these functions, newer
// characters are treated as these tables treat them.

/// True for marks and characters with decompositions that were added after Unicode 9. The normalizers treat
/// them as ordinary letters, which are neither reordered nor combined.
bool is_younger_than_normalizers(char32_t code_point) noexcept;

/// \p{M} of Unicode 9.
bool is_mark_of_normalizers(char32_t code_point) noexcept;

} // namespace paceline::tokenizer
