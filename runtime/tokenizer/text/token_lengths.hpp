#pragma once

#include "runtime/tokenizer/text/token_table.hpp"

#include <cstddef>
#include <string_view>
#include <vector>

namespace paceline::tokenizer {

/// For each byte, and each pair of adjacent bytes, the length of the longest token that contains it. These
/// lengths give a lower bound of the number of tokens in a text without tokenizing the text. Const and
/// thread-safe.
class token_lengths {
 public:
  token_lengths() = default;
  explicit token_lengths(const token_table& tokens);

  /// A lower bound of the number of tokens in any segmentation of `text`. 0 if no token table was given.
  ///
  /// It is the greater of two bounds. First: each byte counts 1 / (length of the longest token that contains
  /// the byte). So each byte of a token of n bytes counts at most 1 / n, and the whole token at most 1.
  /// Second: each pair of neighbouring bytes counts 1 / (length of the longest token that contains the pair).
  /// The n - 1 pairs inside a token count less than 1 together, and the pair between two tokens at most
  /// 1 / 2, so the sum is divided by 1.5.
  std::size_t fewest_tokens(std::string_view text) const;

 private:
  std::vector<float> of_byte_; ///< 1 / length; 0 = in no token
  std::vector<float> of_pair_; ///< by 256 * first + second
};

/// The pairs of characters that are adjacent in some token. No merge joins two characters that are adjacent
/// in no token. Const and thread-safe.
class token_neighbours {
 public:
  token_neighbours() = default;
  explicit token_neighbours(const token_table& tokens);

  /// False if no token has the character `left` directly before the character `right` (both in UTF-8).
  bool may_touch(std::string_view left, std::string_view right) const noexcept;

 private:
  std::vector<bool> seen_; ///< by hash of the pair; pairs with equal hashes are not distinguished
};

} // namespace paceline::tokenizer
