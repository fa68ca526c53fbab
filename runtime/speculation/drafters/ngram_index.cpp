#include "runtime/speculation/drafters/ngram_index.hpp"

#include <algorithm>

namespace paceline::speculation {

namespace {

/// Hash of an n-gram read backwards, one token at a time, so that all lengths ending at one place share the
/// work. The finaliser is SplitMix64's.
std::uint64_t extend_hash(std::uint64_t hash, token_id token) noexcept {
  std::uint64_t z = hash * 0x9E3779B97F4A7C15ULL + static_cast<std::uint32_t>(token.value) + 1;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

} // namespace

bool ngram_index::extend(std::span<const token_id> text, std::size_t max_tokens) {
  const std::size_t indexable = text.empty() ? 0 : text.size() - 1;
  if (num_indexed_ > indexable) { // a shorter text is another text
    next_.clear();
    num_indexed_ = 0;
  }
  const std::size_t end = std::min(indexable, num_indexed_ + max_tokens);
  for (; num_indexed_ < end; ++num_indexed_) {
    std::uint64_t hash = 0;
    const std::size_t longest = std::min<std::size_t>(max_length_, num_indexed_ + 1);
    for (std::size_t length = 1; length <= longest; ++length) {
      hash = extend_hash(hash, text[num_indexed_ + 1 - length]);
      if (length >= min_length_) next_.insert_or_assign(hash, static_cast<std::uint32_t>(num_indexed_ + 1));
    }
  }
  return num_indexed_ >= indexable;
}

std::optional<std::size_t> ngram_index::continuation(std::span<const token_id> text) const {
  std::optional<std::size_t> found;
  std::uint64_t hash = 0;
  const std::size_t longest = std::min<std::size_t>(max_length_, text.size());
  for (std::size_t length = 1; length <= longest; ++length) {
    hash = extend_hash(hash, text[text.size() - length]);
    if (length < min_length_) continue;
    const auto place = next_.find(hash);
    if (place == next_.end()) break; // no longer suffix can occur either
    const std::size_t next = place->second;
    if (!std::equal(text.end() - static_cast<std::ptrdiff_t>(length), text.end(),
                    text.begin() + static_cast<std::ptrdiff_t>(next - length)))
      break; // another n-gram of the same hash
    found = next;
  }
  return found;
}

} // namespace paceline::speculation
