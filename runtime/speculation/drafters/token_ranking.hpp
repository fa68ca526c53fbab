#pragma once

#include "runtime/base/ids.hpp"
#include "runtime/speculation/drafters/draft.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace paceline::speculation {

/// Counts a bounded number of tokens (Space-Saving, Metwally et al. 2005). When all entries are used, a new
/// token replaces the rarest one and continues its count, so that a frequent new token soon ranks high.
class token_ranking {
 public:
  void add(token_id token, std::uint32_t weight, std::size_t max_tokens);

  bool empty() const noexcept { return entries_.empty(); }
  /// The most frequent token; of equally frequent ones the lowest id. The ranking must not be empty.
  token_id best() const;
  /// Adds the counts of `other`.
  void add_all(const token_ranking& other, std::size_t max_tokens);
  /// The most frequent tokens, at most 64, in proportion to their counts.
  draft_distribution distribution() const;

 private:
  struct entry {
    token_id token;
    std::uint64_t count = 0;
  };
  static bool before(const entry& a, const entry& b) noexcept {
    return a.count > b.count || (a.count == b.count && a.token < b.token);
  }
  std::vector<entry> entries_; ///< unordered
};

} // namespace paceline::speculation
