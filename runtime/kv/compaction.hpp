#pragma once

#include "runtime/base/ids.hpp"
#include "runtime/device/row_batch.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace paceline::kv {

/// The copies that move the accepted path of a draft tree to consecutive slots: the cell of `path[i]` goes to
/// slot `base_length + i` of the same block table. `path` holds the slots of the accepted rows, root first.
/// They are at least `base_length` and strictly ascending, because a node follows its ancestors. Therefore
/// copying in order never overwrites a source. Cells already in place are skipped; adjacent cells that move
/// together form one copy.
std::vector<device::kv_copy> compact_path(std::span<const block_id> blocks, std::uint32_t block_size,
                                          std::uint32_t base_length, std::span<const kv_slot> path);

} // namespace paceline::kv
