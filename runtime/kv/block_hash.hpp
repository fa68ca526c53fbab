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

/// The content of one block of a sequence; `parent` stands for everything before it.
struct block_content {
  hash128 parent; ///< hash of the previous block; zero for the first
  /// The request's cache salt, with its API key if there is one; empty after the first block.
  std::string_view salt;
  /// Number of cells computed as prompt, in pools where cells computed as prompt and as output differ in
  /// their bits (`pool_config::separate_origins`); else 0.
  std::uint32_t num_prompt_cells = 0;
  std::span<const token_id> tokens; ///< [block_size]
};

/// Hash of a block's content. It only speeds up the search: a hit also requires equal content.
using block_hasher = std::function<hash128(const block_content&)>;

/// XXH3 with a secret key, so that clients cannot construct collisions. Each call draws a new key from
/// `std::random_device`.
block_hasher make_block_hasher();

} // namespace paceline::kv
