#pragma once

#include "runtime/base/ids.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

namespace paceline::speculation {

/// A place in a text whose preceding tokens equal the last tokens of a query.
struct occurrence {
  std::size_t next = 0;     ///< position of the token that followed
  std::uint32_t length = 0; ///< number of equal tokens

  friend bool operator==(const occurrence&, const occurrence&) = default;
};

/// The places of n-grams of certain lengths in one growing text. Finds earlier occurrences of a query's
/// suffixes. Adding a token costs one insertion for each n-gram length, however long the text is. The index
/// does not store the text: each call must pass the same text, possibly grown.
class ngram_index {
 public:
  /// Indexes all lengths from min_length to max_length; keeps only the last occurrence.
  ngram_index(std::uint32_t min_length, std::uint32_t max_length);
  /// Indexes these lengths (in ascending order, each at least 1) and keeps all occurrences, for `find`. Takes
  /// 4 more bytes for each token and length.
  explicit ngram_index(std::vector<std::uint32_t> lengths);

  /// Indexes the n-grams of `text` that end before its last token, because these have a continuation. One
  /// call handles at most `max_tokens` end positions. `text` must begin with the text of earlier calls; if
  /// `text` is too short for what is indexed, the index starts over. Returns true when all are indexed.
  bool extend(std::span<const token_id> text, std::size_t max_tokens);

  /// Finds the longest suffix of `text`, among the indexed lengths, that occurred before. Returns the
  /// position after its last earlier occurrence; nullopt if there is none.
  std::optional<std::size_t> continuation(std::span<const token_id> text) const;

  /// Fills `out` with at most `max_count` places of `text` that follow a suffix of `query` (which may be
  /// `text` itself). Places after longer suffixes come first; of equal lengths, later places come first. A
  /// suffix longer than `max_length` is treated as one of `max_length` tokens. At most `max_looks`
  /// occurrences are compared: those of the longest indexed suffix, latest first, then those of shorter ones.
  /// Only for an index that keeps all occurrences.
  void find(std::span<const token_id> text, std::span<const token_id> query, std::size_t max_count,
            std::uint32_t max_length, std::vector<occurrence>& out) const;

  static constexpr std::size_t max_looks = 512;

  std::size_t num_indexed() const noexcept { return num_indexed_; }

 private:
  std::vector<std::uint32_t> lengths_; ///< ascending
  bool keep_earlier_ = false;
  std::size_t num_indexed_ = 0; ///< n-grams that end before this position are in the index
  /// Key: hash of an n-gram. Value: position after the last occurrence of the n-gram.
  std::unordered_map<std::uint64_t, std::uint32_t> next_;
  /// [i][position]: position after the previous occurrence of the n-gram of length lengths_[i] that ends at
  /// `position`; 0 = none.
  std::vector<std::vector<std::uint32_t>> earlier_;
};

/// The `length` tokens of `text` from position `next` on. If the text ends before that many, the tokens from
/// `next` to its end are repeated as often as necessary.
std::vector<token_id> continuation_of(std::span<const token_id> text, std::size_t next, std::size_t length);

} // namespace paceline::speculation
