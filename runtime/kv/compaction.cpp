#include "runtime/kv/compaction.hpp"

#include "runtime/base/check.hpp"

#include <cstddef>
#include <string>

namespace paceline::kv {

std::vector<device::kv_copy> compact_path(std::span<const block_id> blocks, std::uint32_t block_size,
                                          std::uint32_t base_length, std::span<const kv_slot> path) {
  std::vector<device::kv_copy> copies;
  for (std::size_t i = 0; i < path.size(); ++i) {
    const auto from = path[i].value;
    const auto to = base_length + static_cast<std::uint32_t>(i);
    PACELINE_CHECK(from >= to && (i == 0 || path[i - 1] < path[i]),
                   "an accepted path must ascend from the base length");
    PACELINE_CHECK(from / block_size < blocks.size(),
                   "slot " + std::to_string(from) + " lies outside the block table");
    if (from == to) continue;
    const device::kv_copy cell{blocks[from / block_size], from % block_size, blocks[to / block_size],
                               to % block_size, 1};
    if (!copies.empty()) {
      auto& last = copies.back();
      if (last.from_block == cell.from_block && last.to_block == cell.to_block &&
          last.from_offset + last.num_cells == cell.from_offset &&
          last.to_offset + last.num_cells == cell.to_offset) {
        // The source and target ranges of one copy must not overlap. So if cells of one block move by d, at
        // most d of them are merged into one copy.
        if (cell.from_block != cell.to_block || last.num_cells < last.from_offset - last.to_offset) {
          ++last.num_cells;
          continue;
        }
      }
    }
    copies.push_back(cell);
  }
  return copies;
}

} // namespace paceline::kv
