#pragma once

#include "runtime/base/ids.hpp"

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

namespace paceline::kv {

struct hash128 {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  friend bool operator==(const hash128&, const hash128&) = default;
};

/// What one block of a sequence holds, given everything before it.
struct block_content {
  hash128 parent;                     ///< hash of the block before; zero for the first
  std::string_view salt;              ///< tenant's; of the first block only
  std::uint32_t num_prompt_cells = 0; ///< cells computed as prompt, where that matters to their bits
  std::span<const token_id> tokens;   ///< [block_size]
};

/// Hash of a block's content. Only speeds up the search: a hit is decided by comparing the content itself.
using block_hasher = std::function<hash128(const block_content&)>;

/// XXH3 with a secret drawn from the system when called, so that nobody outside can aim at a bucket.
block_hasher make_block_hasher();

} // namespace paceline::kv
