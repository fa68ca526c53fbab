#pragma once

#include "runtime/base/ids.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>

namespace paceline::speculation {

/// Where each n-gram (min_length..max_length tokens) of one growing text occurred last: finds the most recent
/// earlier occurrence of the text's longest suffix. Adding a token costs one insertion a length, whatever the
/// text's length.
class ngram_index {
 public:
  ngram_index(std::uint32_t min_length, std::uint32_t max_length)
      : min_length_(min_length), max_length_(max_length) {}

  /// Indexes the n-grams of `text` that end before its last token (those have a continuation); at most
  /// `max_tokens` of them are new. `text` starts with what earlier calls saw. True when all are indexed.
  bool extend(std::span<const token_id> text, std::size_t max_tokens);

  /// Position after the most recent earlier occurrence of the longest suffix of `text` that has one.
  std::optional<std::size_t> continuation(std::span<const token_id> text) const;

  std::size_t num_indexed() const noexcept { return num_indexed_; }

 private:
  std::uint32_t min_length_;
  std::uint32_t max_length_;
  std::size_t num_indexed_ = 0; ///< n-grams ending at positions below this are in the index
  std::unordered_map<std::uint64_t, std::uint32_t>
      next_; ///< hash of an n-gram and its length -> position after it
};

} // namespace paceline::speculation
