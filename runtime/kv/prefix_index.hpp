#pragma once

#include "runtime/base/expected.hpp"
#include "runtime/base/ids.hpp"
#include "runtime/kv/block_hash.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::kv {

/// The full blocks of committed tokens, as a forest. A node is one block, identified by its tokens,
/// `num_prompt_cells` (see block_hash.hpp) and its parent. A root belongs to one salt. A lookup uses hashes
/// and then compares tokens, salt and parent, so equal hashes cannot mix up two prompts.
///
/// Stores block ids only. The caller counts the index as one owner of each block in it, and reports which
/// blocks have no other owner (`set_idle`). These idle blocks can be evicted, leaves first, least recently
/// used first. Every idle block can eventually be evicted, even if a descendant of its node is in use: the
/// request that uses the descendant has a block of its own with the idle block's content.
///
/// The constructor allocates all memory, so later calls cannot run out of it.
class prefix_index {
 public:
  /// A reference to a node. `contains` is false after the node's block was evicted or reused. The default
  /// value, the root reference, is the position before the first block.
  struct node_ref {
    block_id block;
    std::uint64_t serial = 0; ///< 0: no node
    friend bool operator==(const node_ref&, const node_ref&) = default;
  };

  prefix_index(std::uint32_t num_blocks, std::uint32_t block_size, block_hasher hasher);

  /// The child of `parent` with this content, if there is one. `salt` is compared at the root only.
  std::optional<node_ref> find(node_ref parent, std::string_view salt, std::uint32_t num_prompt_cells,
                               std::span<const token_id> tokens) const;
  /// Adds `block` as a child of `parent`, which must still be in the index. The index must not contain this
  /// content or this block yet.
  node_ref insert(node_ref parent, const std::shared_ptr<const std::string>& salt,
                  std::uint32_t num_prompt_cells, std::span<const token_id> tokens, block_id block);

  bool contains(block_id block) const { return nodes_[block.value].serial != 0; }
  /// True for the root reference, too.
  bool contains(node_ref node) const {
    return node.serial == 0 || nodes_[node.block.value].serial == node.serial;
  }

  /// Sets whether the index is the block's only owner. `now` is the time of the last use of a block that
  /// becomes idle. It must not decrease from one such call to the next.
  void set_idle(block_id block, bool idle, std::uint64_t now = 0);
  /// The last use of the least recently used idle block; nullopt if no block is idle.
  std::optional<std::uint64_t> oldest_use() const;
  /// Removes one leaf and returns its block; nullopt if no block is idle. The leaf is the least recently used
  /// idle leaf. If no leaf is idle, it is a leaf in use below the least recently used idle block. Repeated
  /// calls then turn that block into a leaf and remove it.
  std::optional<block_id> evict();

  std::uint32_t num_nodes() const noexcept { return num_nodes_; }
  std::uint32_t num_idle() const noexcept { return num_idle_; }

  expected<void> check_invariants() const;

 private:
  static constexpr std::uint32_t none = 0xFFFF'FFFF;

  struct node {
    std::uint64_t serial = 0; ///< 0: this block is not indexed
    hash128 hash;
    node_ref parent;
    std::shared_ptr<const std::string> salt; ///< for roots
    std::uint32_t num_prompt_cells = 0;
    std::uint32_t first_child = none;
    std::uint32_t next_sibling = none; ///< neighbours in the parent's list of children
    std::uint32_t previous_sibling = none;
    std::uint32_t next_in_bucket = none;
    bool idle = false;
    std::uint64_t last_use = 0; ///< of an idle node
    std::uint32_t older = none; ///< neighbours in the list of idle nodes
    std::uint32_t newer = none;
  };

  std::uint32_t& bucket_of(const hash128& hash) { return buckets_[hash.low & (buckets_.size() - 1)]; }
  std::uint32_t bucket_of(const hash128& hash) const { return buckets_[hash.low & (buckets_.size() - 1)]; }
  hash128 hash_of(node_ref parent, std::string_view salt, std::uint32_t num_prompt_cells,
                  std::span<const token_id> tokens) const;
  std::span<const token_id> tokens_of(std::uint32_t index) const {
    return std::span(tokens_).subspan(std::size_t{index} * block_size_, block_size_);
  }
  void link_to_parent(std::uint32_t index) noexcept;
  void unlink_from_parent(std::uint32_t index) noexcept;
  void append_idle(std::uint32_t index) noexcept;
  void remove_idle(std::uint32_t index) noexcept;
  void remove(std::uint32_t index) noexcept;

  std::uint32_t block_size_;
  block_hasher hasher_;
  std::vector<node> nodes_;            ///< [num_blocks], by block id
  std::vector<token_id> tokens_;       ///< [num_blocks][block_size]
  std::vector<std::uint32_t> buckets_; ///< heads of the hash chains; their number is a power of two
  std::uint32_t oldest_ = none;
  std::uint32_t newest_ = none;
  std::uint32_t num_nodes_ = 0;
  std::uint32_t num_idle_ = 0;
  std::uint64_t next_serial_ = 1;
};

} // namespace paceline::kv
