#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace paceline {

/// Masks of tokens: the bit of token t is bit t % 32 of word t / 32, where bit 0 is the lowest.
using mask_word = std::uint32_t;
inline constexpr std::size_t mask_word_bits = 32;

constexpr std::size_t num_mask_words(std::size_t num_tokens) noexcept {
  return (num_tokens + mask_word_bits - 1) / mask_word_bits;
}
/// Bits after the end of the mask count as 0.
constexpr bool has_bit(std::span<const mask_word> mask, std::size_t token) noexcept {
  return token / mask_word_bits < mask.size() &&
         (mask[token / mask_word_bits] >> token % mask_word_bits & 1U) != 0;
}
constexpr void set_bit(std::span<mask_word> mask, std::size_t token) noexcept {
  mask[token / mask_word_bits] |= mask_word{1} << token % mask_word_bits;
}
constexpr void clear_bit(std::span<mask_word> mask, std::size_t token) noexcept {
  mask[token / mask_word_bits] &= ~(mask_word{1} << token % mask_word_bits);
}

} // namespace paceline
