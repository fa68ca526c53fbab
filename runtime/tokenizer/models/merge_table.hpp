#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace paceline::tokenizer {

/// The merges of a BPE vocabulary: finds the merge of two adjacent symbols. A hash table with open
/// addressing. It is filled once and can then be read by any thread.
class merge_table {
 public:
  struct merge {
    std::uint64_t sides = no_sides; ///< the two symbols: left << 32 | right
    std::uint32_t rank = 0;         ///< merges with lower rank are made first
    std::int32_t result = -1;       ///< the symbol that replaces the two
  };

  merge_table() : merge_table(0) {}
  explicit merge_table(std::size_t num_merges);

  /// Adds a merge of symbols `left` and `right`. No effect if they have one already.
  void insert(std::int32_t left, std::int32_t right, std::uint32_t rank, std::int32_t result) noexcept;

  /// The merge of two adjacent symbols; null if there is none. A negative number stands for text without a
  /// symbol, which never merges.
  const merge* find(std::int32_t left, std::int32_t right) const noexcept {
    if (left < 0 || right < 0) return nullptr;
    const std::uint64_t sides = pack(left, right);
    for (std::size_t slot = hash(sides) & mask_;; slot = (slot + 1) & mask_) {
      if (slots_[slot].sides == sides) return &slots_[slot];
      if (slots_[slot].sides == no_sides) return nullptr;
    }
  }

 private:
  static constexpr std::uint64_t no_sides = ~std::uint64_t{0};

  static constexpr std::uint64_t pack(std::int32_t left, std::int32_t right) noexcept {
    return (static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32) |
           static_cast<std::uint32_t>(right);
  }
  static constexpr std::size_t hash(std::uint64_t sides) noexcept {
    sides *= 0x9e3779b97f4a7c15ULL; // 2^64 / golden ratio: neighbouring ids spread over the table
    return static_cast<std::size_t>(sides ^ (sides >> 32));
  }

  std::vector<merge> slots_;
  std::size_t mask_;
};

} // namespace paceline::tokenizer
