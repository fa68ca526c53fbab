#pragma once

#include "runtime/base/ids.hpp"
#include "runtime/device/row_batch.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace paceline::kv {

/// Copies that move the accepted path of a draft tree into line: the cell of `path[i]` goes to slot
/// `base_length + i` of the same block table. `path` holds the slots of the accepted rows, root first:
/// strictly ascending and none below `base_length` (a node stands after its ancestors), which is why copying
/// in order never overwrites a source. Cells already in place are left out; neighbours that move together are
/// one copy.
std::vector<device::kv_copy> compact_path(std::span<const block_id> blocks, std::uint32_t block_size,
                                          std::uint32_t base_length, std::span<const kv_slot> path);

} // namespace paceline::kv
