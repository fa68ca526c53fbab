#pragma once

#include "runtime/base/ids.hpp"
#include "runtime/speculation/drafters/draft.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace paceline::speculation {

/// Counts of tokens, of which a bounded number is kept (Space-Saving, Metwally et al. 2005): when all places
/// are taken a new token gets that of the rarest and its count, so that a frequent one is never missed for
/// long.
class token_ranking {
 public:
  void add(token_id token, std::uint32_t weight, std::size_t max_tokens);

  bool empty() const noexcept { return entries_.empty(); }
  /// The most frequent token, of equals the lowest. Needs one.
  token_id best() const;
  /// Adds the counts of `other`.
  void add_all(const token_ranking& other, std::size_t max_tokens);
  /// The most frequent tokens (64 at most) in proportion to their counts.
  draft_distribution distribution() const;

 private:
  struct entry {
    token_id token;
    std::uint64_t count = 0;
  };
  static bool before(const entry& a, const entry& b) noexcept {
    return a.count > b.count || (a.count == b.count && a.token < b.token);
  }
  std::vector<entry> entries_; ///< in no order
};

} // namespace paceline::speculation
