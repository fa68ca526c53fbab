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

/// The content of one block of a sequence, with what precedes it.
struct block_content {
  hash128 parent;        ///< hash of the previous block; zero for the first
  std::string_view salt; ///< the tenant's; for the first block only
  /// Number of cells computed as prompt, in pools where this changes their bits.
  std::uint32_t num_prompt_cells = 0;
  std::span<const token_id> tokens; ///< [block_size]
};

/// Hash of a block's content. It only speeds up the search: the content itself is compared before a hit
/// counts.
using block_hasher = std::function<hash128(const block_content&)>;

/// XXH3 with a secret drawn from the system at the call, so that clients cannot construct collisions.
block_hasher make_block_hasher();

} // namespace paceline::kv
