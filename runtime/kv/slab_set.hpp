#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace paceline::kv {

/// A set of slab numbers below a fixed size. A slab is a run of blocks that is lent to a pool as a whole
/// (block_pool.hpp). The set has a bit for each slab, in words of 64 bits. `set` keeps track of the first and
/// the last word that is not 0, so `first` and `last` take constant time. This matters if a pool borrows a
/// million slabs one after another. Never allocates after construction.
class slab_set {
 public:
  /// Result of `first` and `last` for an empty set.
  static constexpr std::size_t none = ~std::size_t{0};

  explicit slab_set(std::size_t size) : words_((size + 63) / 64), begin_(words_.size()) {}

  bool contains(std::size_t slab) const noexcept { return (words_[slab / 64] >> (slab % 64) & 1) != 0; }

  void set(std::size_t slab, bool member) noexcept {
    const auto bit = std::uint64_t{1} << (slab % 64);
    if (member) {
      words_[slab / 64] |= bit;
      begin_ = std::min(begin_, slab / 64);
      end_ = std::max(end_, slab / 64 + 1);
    } else {
      words_[slab / 64] &= ~bit;
      while (begin_ < end_ && words_[begin_] == 0) ++begin_;
      while (begin_ < end_ && words_[end_ - 1] == 0) --end_;
    }
    if (begin_ >= end_) begin_ = words_.size(), end_ = 0;
  }

  std::size_t first() const noexcept {
    if (begin_ >= end_) return none;
    return begin_ * 64 + static_cast<std::size_t>(std::countr_zero(words_[begin_]));
  }

  std::size_t last() const noexcept {
    if (begin_ >= end_) return none;
    return end_ * 64 - 1 - static_cast<std::size_t>(std::countl_zero(words_[end_ - 1]));
  }

 private:
  std::vector<std::uint64_t> words_;
  /// Index of the first word that is not zero, and 1 + index of the last one. If all words are zero, begin_
  /// is the number of words and end_ is 0.
  std::size_t begin_, end_ = 0;
};

} // namespace paceline::kv
