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

/// Which full blocks of committed tokens exist, as a forest: a node is one block whose content is its tokens
/// after those of its parent; a root belongs to one salt. Prefixes are found by hash and confirmed by
/// comparing tokens, salt and parent, so that equal hashes can never mix two prompts.
///
/// Keeps block ids only; the caller counts the index as one owner of every block in it, and tells it which
/// blocks nobody else owns (`set_idle`): those are evictable, leaves first, least recently used first. Every
/// idle block can be had: a request in use below one computed its content again, in a block of its own.
///
/// All memory is allocated by the constructor, so no later call can fail for want of it.
class prefix_index {
 public:
  /// A node, recognisable after its block was evicted and used again. Default: before the first block.
  struct node_ref {
    block_id block;
    std::uint64_t serial = 0; ///< 0: no node
    friend bool operator==(const node_ref&, const node_ref&) = default;
  };

  prefix_index(std::uint32_t num_blocks, std::uint32_t block_size, block_hasher hasher);

  /// The node after `parent` with this content, if there is one. `salt` counts at the root only.
  std::optional<node_ref> find(node_ref parent, std::string_view salt, std::uint32_t num_prompt_cells,
                               std::span<const token_id> tokens) const;
  /// Adds `block` after `parent`, which must still be in the index. Nothing with this content may be there,
  /// and the block must not be indexed yet.
  node_ref insert(node_ref parent, const std::shared_ptr<const std::string>& salt,
                  std::uint32_t num_prompt_cells, std::span<const token_id> tokens, block_id block);

  bool contains(block_id block) const { return nodes_[block.value].serial != 0; }
  /// True for the root reference, too.
  bool contains(node_ref node) const {
    return node.serial == 0 || nodes_[node.block.value].serial == node.serial;
  }

  /// `idle`: the index is the block's only owner. Becoming idle counts as its last use.
  void set_idle(block_id block, bool idle);
  /// Removes one leaf and returns its block; none if no block is idle. That is the least recently used idle
  /// leaf. If no leaf is idle, it is one in use below the least recently used idle block: repeated, that
  /// block becomes a leaf and goes.
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
    std::shared_ptr<const std::string> salt; ///< of a root
    std::uint32_t num_prompt_cells = 0;
    std::uint32_t first_child = none;
    std::uint32_t next_sibling = none; ///< neighbours in the list of the parent's children
    std::uint32_t previous_sibling = none;
    std::uint32_t next_in_bucket = none;
    bool idle = false;
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
  std::vector<std::uint32_t> buckets_; ///< heads of chains; a power of two of them
  std::uint32_t oldest_ = none;
  std::uint32_t newest_ = none;
  std::uint32_t num_nodes_ = 0;
  std::uint32_t num_idle_ = 0;
  std::uint64_t next_serial_ = 1;
};

} // namespace paceline::kv
