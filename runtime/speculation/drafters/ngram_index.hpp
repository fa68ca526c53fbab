#pragma once

#include "runtime/base/ids.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

namespace paceline::speculation {

/// An earlier place of a text whose last tokens are those of the query.
struct occurrence {
  std::size_t next = 0;     ///< position of the token that followed
  std::uint32_t length = 0; ///< tokens that agree

  friend bool operator==(const occurrence&, const occurrence&) = default;
};

/// Where the n-grams of some lengths occurred in one growing text: finds earlier occurrences of a query's
/// suffixes. Adding a token costs one insertion a length, whatever the text's length. The index holds no
/// text: every call gets the same one, grown.
class ngram_index {
 public:
  /// Every length from min_length to max_length; the last occurrence only.
  ngram_index(std::uint32_t min_length, std::uint32_t max_length);
  /// These lengths (ascending, from 1); `find` goes back through all occurrences. Costs 4 bytes more a token
  /// and length.
  explicit ngram_index(std::vector<std::uint32_t> lengths);

  /// Indexes the n-grams of `text` that end before its last token (those have a continuation); at most
  /// `max_tokens` of them are new. `text` starts with what earlier calls saw. True when all are indexed.
  bool extend(std::span<const token_id> text, std::size_t max_tokens);

  /// Position after the most recent earlier occurrence of the longest suffix of `text` that has one.
  std::optional<std::size_t> continuation(std::span<const token_id> text) const;

  /// Fills `out` with at most `max_count` places of `text` where a suffix of `query` (which may be `text`
  /// itself) occurred: longest agreement first, up to `max_length` tokens, the most recent first among
  /// equals. Looks at the most recent `max_looks` occurrences, those of the longest indexed suffix first;
  /// among these no longer agreement is missed.
  void find(std::span<const token_id> text, std::span<const token_id> query, std::size_t max_count,
            std::uint32_t max_length, std::vector<occurrence>& out) const;

  static constexpr std::size_t max_looks = 512;

  std::size_t num_indexed() const noexcept { return num_indexed_; }

 private:
  std::vector<std::uint32_t> lengths_; ///< ascending
  bool keep_earlier_ = false;
  std::size_t num_indexed_ = 0; ///< n-grams ending at positions below this are in the index
  std::unordered_map<std::uint64_t, std::uint32_t>
      next_; ///< hash of an n-gram and its length -> position after it
  /// [length][position]: position after the occurrence before the one that ends at `position`; 0 = none.
  std::vector<std::vector<std::uint32_t>> earlier_;
};

/// The `length` tokens that followed at `next` in `text`. Where they run into the end of the text, the text
/// repeats with that period: the continuation goes on reading from its own beginning.
std::vector<token_id> continuation_of(std::span<const token_id> text, std::size_t next, std::size_t length);

} // namespace paceline::speculation
