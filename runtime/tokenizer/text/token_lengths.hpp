#pragma once

#include "runtime/tokenizer/text/token_table.hpp"

#include <cstddef>
#include <string_view>
#include <vector>

namespace paceline::tokenizer {

/// How long the tokens of a vocabulary are that have certain bytes in them, which says how few tokens a text
/// can have before anybody merges it. Const and thread-safe.
class token_lengths {
 public:
  token_lengths() = default;
  explicit token_lengths(const token_table& tokens);

  /// No way to cut `text` into tokens has fewer. 0 where nothing is known.
  ///
  /// A byte in a token of n bytes counts 1 / (the longest token that has this byte), at most 1 / n: a token
  /// counts at most 1. A pair of neighbours counts likewise: n - 1 pairs inside a token count less than 1,
  /// and the pair between two tokens at most 1 / 2.
  std::size_t fewest_tokens(std::string_view text) const;

 private:
  std::vector<float> of_byte_; ///< 1 / length; 0 = in no token
  std::vector<float> of_pair_; ///< by 256 * first + second
};

/// Which characters stand beside each other inside tokens. Where two do not, no merge ever crosses. Const and
/// thread-safe.
class token_neighbours {
 public:
  token_neighbours() = default;
  explicit token_neighbours(const token_table& tokens);

  /// False: no token has `left` right before `right`; both are the bytes of one character.
  bool may_touch(std::string_view left, std::string_view right) const noexcept;

 private:
  std::vector<bool> seen_; ///< by hash of the pair; two pairs of one hash are taken for one
};

} // namespace paceline::tokenizer
