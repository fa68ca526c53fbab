#pragma once

#include "runtime/base/ids.hpp"
#include "runtime/speculation/drafters/draft.hpp"

#include <cstdint>
#include <functional>
#include <span>
#include <unordered_map>
#include <vector>

namespace paceline::speculation {

/// N-grams by their first token; of each the ones seen last.
class ngram_pool {
 public:
  explicit ngram_pool(std::size_t max_per_token) : max_per_token_(max_per_token) {}

  /// `ngram`: the first token and what followed it.
  void add(std::span<const token_id> ngram);
  /// What followed `first`, the one seen last first.
  std::vector<std::vector<token_id>> followers(token_id first) const;

 private:
  std::size_t max_per_token_;
  std::unordered_map<token_id, std::vector<std::vector<token_id>>>
      by_first_; ///< the one seen last at the end
};

/// The window of lookahead decoding (Fu et al. 2024, section 3.1): guesses at the tokens to come, in `width`
/// columns and ngram_length - 1 levels. Level 0 is a chain behind the newest token: column c stands c + 1
/// tokens behind it. The column's other levels hang below that, each continuing the one above:
///
///     newest token - a0 - a1 - a2       level 0
///                     |    |    |
///                    b0   b1   b2       level 1: b1 continues (a0, a1)
///
/// Every round the target says what continues the last level, which completes an n-gram a column; then the
/// levels move up by one, the positions by the tokens committed.
class lookahead_window {
 public:
  lookahead_window(std::uint32_t width, std::uint32_t ngram_length);

  std::uint32_t num_rows() const noexcept { return width_ * num_levels_; }
  /// Levels that the rows make.
  std::uint32_t depth() const noexcept { return width_ + num_levels_ - 1; }

  /// Guesses every place anew.
  void fill(const std::function<token_id()>& guess);
  /// Adds the window's places as probes.
  void add_to(draft& carrier) const;
  /// Takes over what the target said after each of the rows, when `num_committed` tokens were committed:
  /// reports an n-gram a column and moves on. Places without a token (below 0: the row had no finite logit)
  /// are guessed.
  void advance(std::uint32_t num_committed, const std::function<token_id(std::uint32_t row)>& said,
               const std::function<void(std::span<const token_id> ngram)>& report,
               const std::function<token_id()>& guess);

 private:
  /// Number of (level, column) among the rows: level 0 first, then the columns' chains.
  std::uint32_t row_of(std::uint32_t level, std::uint32_t column) const noexcept {
    return level == 0 ? column : width_ + column * (num_levels_ - 1) + (level - 1);
  }

  std::uint32_t width_;
  std::uint32_t num_levels_;
  std::vector<std::vector<token_id>> levels_; ///< [level][column]
};

} // namespace paceline::speculation
