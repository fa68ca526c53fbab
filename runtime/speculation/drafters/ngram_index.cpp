#include "runtime/speculation/drafters/ngram_index.hpp"

#include "runtime/base/check.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace paceline::speculation {

namespace {

/// Hash of an n-gram read backwards, one token at a time, so that all lengths that end at one position share
/// the work. The finaliser is SplitMix64's.
std::uint64_t extend_hash(std::uint64_t hash, token_id token) noexcept {
  std::uint64_t z = hash * 0x9E3779B97F4A7C15ULL + static_cast<std::uint32_t>(token.value) + 1;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

/// Calls `visit(level, hash)` for each of `lengths` for which the first `end` tokens of `text` have a suffix.
template <class Visit>
void for_suffixes(std::span<const token_id> text, std::size_t end, std::span<const std::uint32_t> lengths,
                  Visit visit) {
  std::uint64_t hash = 0;
  std::size_t length = 0;
  for (std::size_t level = 0; level < lengths.size() && lengths[level] <= end; ++level) {
    for (; length < lengths[level]; ++length) hash = extend_hash(hash, text[end - 1 - length]);
    if (!visit(level, hash)) return;
  }
}

/// Length, at most `limit`, of the common suffix of the first `a_end` tokens of `a` and all of `b`.
std::uint32_t agreement(std::span<const token_id> a, std::size_t a_end, std::span<const token_id> b,
                        std::uint32_t limit) noexcept {
  const std::size_t most = std::min<std::size_t>({a_end, b.size(), limit});
  std::uint32_t length = 0;
  while (length < most && a[a_end - 1 - length] == b[b.size() - 1 - length]) ++length;
  return length;
}

} // namespace

ngram_index::ngram_index(std::uint32_t min_length, std::uint32_t max_length) {
  PACELINE_CHECK(min_length >= 1 && min_length <= max_length, "n-grams have at least one token");
  lengths_.resize(max_length - min_length + 1);
  std::iota(lengths_.begin(), lengths_.end(), min_length);
}

ngram_index::ngram_index(std::vector<std::uint32_t> lengths)
    : lengths_(std::move(lengths)), keep_earlier_(true), earlier_(lengths_.size()) {
  PACELINE_CHECK(!lengths_.empty() && lengths_.front() >= 1 &&
                     std::is_sorted(lengths_.begin(), lengths_.end(), std::less_equal<>()),
                 "lengths must ascend from 1 or more");
}

bool ngram_index::extend(std::span<const token_id> text, std::size_t max_tokens) {
  const std::size_t indexable = text.empty() ? 0 : text.size() - 1;
  if (num_indexed_ > indexable) { // a shorter text means a different text
    next_.clear();
    for (auto& positions : earlier_) positions.clear();
    num_indexed_ = 0;
  }
  const std::size_t end = std::min(indexable, num_indexed_ + max_tokens);
  for (; num_indexed_ < end; ++num_indexed_) {
    const auto next = static_cast<std::uint32_t>(num_indexed_ + 1);
    for (auto& positions : earlier_) positions.push_back(0);
    for_suffixes(text, next, lengths_, [&](std::size_t level, std::uint64_t hash) {
      std::uint32_t& last = next_[hash];
      if (keep_earlier_) earlier_[level].back() = last;
      last = next;
      return true;
    });
  }
  return num_indexed_ >= indexable;
}

std::optional<std::size_t> ngram_index::continuation(std::span<const token_id> text) const {
  std::optional<std::size_t> found;
  for_suffixes(text, text.size(), lengths_, [&](std::size_t level, std::uint64_t hash) {
    const auto place = next_.find(hash);
    if (place == next_.end()) return false; // no longer suffix can occur either
    if (agreement(text, place->second, text, lengths_[level]) < lengths_[level])
      return false; // another n-gram with the same hash
    found = place->second;
    return true;
  });
  return found;
}

void ngram_index::find(std::span<const token_id> text, std::span<const token_id> query, std::size_t max_count,
                       std::uint32_t max_length, std::vector<occurrence>& out) const {
  PACELINE_CHECK(keep_earlier_, "this index keeps last occurrences only");
  out.clear();
  std::vector<std::uint32_t> starts; // by level: position after the last occurrence
  for_suffixes(query, query.size(), lengths_, [&](std::size_t, std::uint64_t hash) {
    const auto place = next_.find(hash);
    if (place != next_.end()) starts.push_back(place->second);
    return place != next_.end();
  });
  // Short suffixes find again what longer ones have found, so the number of examined occurrences is limited,
  // not only that of results.
  std::size_t num_looks = max_looks;
  const std::uint32_t longest = std::max(max_length, lengths_.back());
  std::uint32_t found_from = longest + 1; // occurrences with at least this match are in `out`
  for (std::size_t level = starts.size(); level-- > 0 && out.size() < max_count;) {
    // All occurrences of this suffix; longer matches may be anywhere among them.
    for (std::uint32_t next = starts[level]; next != 0 && num_looks > 0;
         next = earlier_[level][next - 1], --num_looks) {
      const std::uint32_t length = agreement(text, next, query, longest);
      if (length < lengths_[level]) break; // another n-gram with the same hash
      if (length < found_from) out.push_back({next, std::min(length, max_length)});
    }
    found_from = std::min(found_from, lengths_[level]);
  }
  const auto count = static_cast<std::ptrdiff_t>(std::min(max_count, out.size()));
  std::ranges::partial_sort(out, out.begin() + count, [](const occurrence& a, const occurrence& b) {
    return a.length != b.length ? a.length > b.length : a.next > b.next;
  });
  out.resize(static_cast<std::size_t>(count));
}

std::vector<token_id> continuation_of(std::span<const token_id> text, std::size_t next, std::size_t length) {
  std::vector<token_id> tokens;
  tokens.reserve(length);
  for (std::size_t at = next; tokens.size() < length; ++at)
    tokens.push_back(at < text.size() ? text[at] : tokens[at - text.size()]);
  return tokens;
}

} // namespace paceline::speculation
