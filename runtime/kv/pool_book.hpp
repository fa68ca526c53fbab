#pragma once

#include "runtime/kv/pool_manager.hpp"
#include "runtime/kv/prefix_index.hpp"
#include "runtime/kv/state_slot_pool.hpp"

#include <algorithm>
#include <optional>
#include <unordered_map>

namespace paceline::kv {

/// What one request holds in one pool. Used by the pool manager only.
///
/// Invariant: num_published * block_size <= length <= min(tokens, capacity).
struct block_table {
  paceline::epoch epoch;
  std::vector<block_id> blocks;
  std::vector<token_id> tokens; ///< committed
  std::uint32_t length = 0;     ///< leading slots that are final
  std::uint32_t num_prompt_tokens = 0;
  std::shared_ptr<const std::string> salt;
  /// Cached block whose leading cells are to be copied into a block of the request. The table remains an
  /// owner of it until a later pass is committed, because only then the copy is known to be complete.
  std::optional<block_id> copy_source;
  std::uint32_t num_published = 0; ///< leading blocks whose content the index has, in this or another block
  std::vector<state_slot> states;  ///< slots that its request may write or has given to the index
  std::optional<state_slot> initial_state;
  prefix_index::node_ref published; ///< node of the last published block
};

/// The books of one pool: blocks, state slots, tables and prefix index. Used by the pool manager only.
struct pool_book {
  pool_book(pool_config c, pool_id i, const block_hasher& hasher)
      : config(std::move(c)), id(i), blocks(config.num_blocks, config.slab_blocks) {
    if (config.num_state_slots != 0) state_slots.emplace(config.num_state_slots, config.num_blocks);
    if (config.prefix_cache) index.emplace(config.num_blocks, config.block_size, hasher);
  }

  std::uint64_t blocks_for(std::uint64_t length) const noexcept {
    return (length + config.block_size - 1) / config.block_size;
  }
  std::uint32_t capacity_of(const block_table& table) const noexcept {
    return static_cast<std::uint32_t>(table.blocks.size() * config.block_size);
  }
  std::uint32_t num_idle() const noexcept { return index ? index->num_idle() : 0; }

  /// Adds a table as owner of a block that already has owners.
  void hold(block_id block);
  /// Removes an owner other than the index. `now` is recorded as the time of the block's last use.
  void drop(block_id block, block_owner owner, std::uint64_t now);
  /// Nodes of the longest indexed prefix of `tokens`, whole blocks only.
  std::vector<prefix_index::node_ref>
  find_prefix(std::span<const token_id> tokens, std::uint32_t num_prompt_tokens, std::string_view salt) const;
  /// Shortens `path` to the longest prefix, of at most `most` blocks, whose last block has a snapshot, and
  /// returns that snapshot. Returns nullopt and empties `path` if there is no snapshot, or if its use would
  /// leave the request fewer than `num_others` other slots.
  std::optional<state_slot> end_at_snapshot(std::vector<prefix_index::node_ref>& path, std::size_t most,
                                            std::uint32_t num_others) const;
  /// Adds the table's full final blocks to the index.
  void publish(block_table& table);
  /// Keeps a snapshot with a published block, unless that block has one already.
  void keep_snapshot(const block_table& table, const state_snapshot& snapshot);

  pool_config config;
  pool_id id;
  std::size_t account = 0; ///< index in the budget of its space
  block_pool blocks;
  std::optional<prefix_index> index;
  std::optional<state_slot_pool> state_slots; ///< of a model with a recurrent state
  std::unordered_map<request_id, block_table> tables;
  pool_counters counters;

 private:
  /// `block_content::num_prompt_cells` of block `i` of a request.
  std::uint32_t prompt_cells(std::uint64_t i, std::uint32_t num_prompt_tokens) const noexcept {
    if (!config.separate_origins) return 0;
    const auto first = i * config.block_size;
    return num_prompt_tokens <= first ? 0
                                      : static_cast<std::uint32_t>(std::min<std::uint64_t>(
                                            num_prompt_tokens - first, config.block_size));
  }
};

} // namespace paceline::kv
