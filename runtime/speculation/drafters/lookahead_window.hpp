#pragma once

#include "runtime/base/ids.hpp"
#include "runtime/speculation/drafters/draft.hpp"

#include <cstdint>
#include <functional>
#include <span>
#include <unordered_map>
#include <vector>

namespace paceline::speculation {

/// For each token the most recent n-grams that begin with it.
class ngram_pool {
 public:
  explicit ngram_pool(std::size_t max_per_token) : max_per_token_(max_per_token) {}

  /// `ngram`: the first token and its continuation.
  void add(std::span<const token_id> ngram);
  /// Continuations of `first`, the most recent first.
  std::vector<std::vector<token_id>> followers(token_id first) const;

 private:
  std::size_t max_per_token_;
  std::unordered_map<token_id, std::vector<std::vector<token_id>>> by_first_; ///< the most recent at the end
};

/// The window of lookahead decoding (Fu et al. 2024, section 3.1): guesses of the coming tokens in `width`
/// columns and ngram_length - 1 levels. Level 0 is a chain after the newest token: column c is c + 1
/// positions after it. In each column, the token of a level continues the tokens of the levels above:
///
///     newest token - a0 - a1 - a2       level 0
///                     |    |    |
///                    b0   b1   b2       level 1: b1 continues (a0, a1)
///
/// In every round the target's best token after the last level completes one n-gram for each column. Then
/// every level takes the place of the one above it, and the columns move by the number of committed tokens.
class lookahead_window {
 public:
  lookahead_window(std::uint32_t width, std::uint32_t ngram_length);

  std::uint32_t num_rows() const noexcept { return width_ * num_levels_; }
  /// Depth of the tree that the window's rows form.
  std::uint32_t depth() const noexcept { return width_ + num_levels_ - 1; }

  /// Fills every place with a new guess.
  void fill(const std::function<token_id()>& guess);
  /// Adds the tokens of the window to `carrier` as probes.
  void add_to(draft& carrier) const;
  /// To be called after a round that committed `num_committed` tokens. `said` returns the target's best token
  /// after a row, or a negative id if the row had no finite logit. Calls `report` with the completed n-gram
  /// of each column (none if `said` gave no token), and moves the window. Empty places are filled by `guess`.
  void advance(std::uint32_t num_committed, const std::function<token_id(std::uint32_t row)>& said,
               const std::function<void(std::span<const token_id> ngram)>& report,
               const std::function<token_id()>& guess);

 private:
  /// Row of (level, column): level 0 comes first, then the chains below each column.
  std::uint32_t row_of(std::uint32_t level, std::uint32_t column) const noexcept {
    return level == 0 ? column : width_ + column * (num_levels_ - 1) + (level - 1);
  }

  std::uint32_t width_;
  std::uint32_t num_levels_;
  std::vector<std::vector<token_id>> levels_; ///< [level][column]
};

} // namespace paceline::speculation
