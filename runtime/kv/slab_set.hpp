#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace paceline::kv {

/// A set of numbers of slabs below a fixed size. A slab is a run of blocks that is lent to a pool as a whole
/// (block_pool.hpp). `first` and `last` search 64 numbers at a time, so that pools
/// with many small slabs stay cheap. Never allocates after construction.
class slab_set {
 public:
  /// Result of `first` and `last` for an empty set.
  static constexpr std::size_t none = ~std::size_t{0};

  explicit slab_set(std::size_t size) : words_((size + 63) / 64) {}

  bool contains(std::size_t slab) const noexcept { return (words_[slab / 64] >> (slab % 64) & 1) != 0; }

  void set(std::size_t slab, bool member) noexcept {
    const auto bit = std::uint64_t{1} << (slab % 64);
    if (member)
      words_[slab / 64] |= bit;
    else
      words_[slab / 64] &= ~bit;
  }

  std::size_t first() const noexcept {
    for (std::size_t i = 0; i < words_.size(); ++i)
      if (words_[i] != 0) return i * 64 + static_cast<std::size_t>(std::countr_zero(words_[i]));
    return none;
  }

  std::size_t last() const noexcept {
    for (std::size_t i = words_.size(); i-- > 0;)
      if (words_[i] != 0) return i * 64 + 63 - static_cast<std::size_t>(std::countl_zero(words_[i]));
    return none;
  }

 private:
  std::vector<std::uint64_t> words_;
};

} // namespace paceline::kv
