#include "runtime/sampling/token_mask.hpp"

#include "runtime/sampling/vector_clones.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>

namespace paceline::sampling {

namespace {

constexpr std::size_t word_bits = 32;
constexpr float minus_infinity = -std::numeric_limits<float>::infinity();

PACELINE_VECTOR_CLONES void mask_word(std::uint32_t word, float* row) noexcept {
  for (std::size_t i = 0; i < word_bits; ++i) row[i] = (word >> i & 1U) != 0 ? row[i] : minus_infinity;
}

} // namespace

void apply_mask(std::span<const std::uint32_t> allowed, std::span<float> row) noexcept {
  const std::size_t num_whole = std::min(allowed.size(), row.size() / word_bits);
  for (std::size_t w = 0; w < num_whole; ++w) {
    float* const part = row.data() + w * word_bits;
    // Most masks allow nearly everything, inside a text, or nearly nothing.
    if (allowed[w] == 0)
      std::fill_n(part, word_bits, minus_infinity);
    else if (allowed[w] != 0xFFFFFFFFU)
      mask_word(allowed[w], part);
  }
  for (std::size_t i = num_whole * word_bits; i < row.size(); ++i) {
    const std::size_t w = i / word_bits;
    const bool keep = w < allowed.size() && (allowed[w] >> (i % word_bits) & 1U) != 0;
    if (!keep) row[i] = minus_infinity;
  }
}

} // namespace paceline::sampling
