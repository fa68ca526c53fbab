#include "runtime/sampling/token_mask.hpp"

#include "runtime/base/token_bits.hpp"
#include "runtime/sampling/minus_infinity.hpp"
#include "runtime/sampling/vector_clones.hpp"

#include <algorithm>
#include <cstddef>

namespace paceline::sampling {

namespace {

PACELINE_VECTOR_CLONES void apply_word(mask_word word, float* row) noexcept {
  for (std::size_t i = 0; i < mask_word_bits; ++i) row[i] = (word >> i & 1U) != 0 ? row[i] : minus_infinity;
}

} // namespace

void apply_mask(std::span<const std::uint32_t> allowed, std::span<float> row) noexcept {
  const std::size_t num_whole = std::min(allowed.size(), row.size() / mask_word_bits);
  for (std::size_t w = 0; w < num_whole; ++w) {
    float* const part = row.data() + w * mask_word_bits;
    // Most masks allow nearly all tokens, inside a text, or nearly none.
    if (allowed[w] == 0)
      std::fill_n(part, mask_word_bits, minus_infinity);
    else if (allowed[w] != 0xFFFFFFFFU)
      apply_word(allowed[w], part);
  }
  for (std::size_t i = num_whole * mask_word_bits; i < row.size(); ++i)
    if (!has_bit(allowed, i)) row[i] = minus_infinity;
}

} // namespace paceline::sampling
