#include "runtime/tokenizer/models/merge_table.hpp"

#include <bit>

namespace paceline::tokenizer {

merge_table::merge_table(std::size_t num_merges)
    : slots_(std::bit_ceil(num_merges * 2 + 2)), mask_(slots_.size() - 1) {}

void merge_table::insert(std::int32_t left, std::int32_t right, std::uint32_t rank,
                         std::int32_t result) noexcept {
  const std::uint64_t sides = pack(left, right);
  std::size_t slot = hash(sides) & mask_;
  while (slots_[slot].sides != no_sides) {
    if (slots_[slot].sides == sides) return;
    slot = (slot + 1) & mask_;
  }
  slots_[slot] = {sides, rank, result};
}

} // namespace paceline::tokenizer
