#pragma once

#include "runtime/base/expected.hpp"
#include "runtime/base/ids.hpp"
#include "runtime/kv/slab_set.hpp"

#include <array>
#include <cstdint>
#include <vector>

namespace paceline::kv {

/// Who can own a block. A block is free when nobody does.
enum class block_owner : std::uint8_t {
  table,   ///< a request's block table (or the source of a copy it still waits for)
  release, ///< a release whose stream point has not passed: device work may still touch the block
  index,   ///< the prefix index; at most once
};

/// What a block is for, from its owners: the first that applies.
enum class block_state : std::uint8_t {
  active,   ///< in a table
  deferred, ///< named by releases only (perhaps indexed too)
  cached,   ///< indexed only: evictable
  free,     ///< lent to the pool and owned by nobody
  absent,   ///< its slab is not lent to the pool
};
inline constexpr std::size_t num_block_states = 5;

/// The blocks of one pool and who owns them. Blocks come and go in slabs, which the caller borrows from a
/// `kv_budget`.
///
/// Invariants: a block is on exactly one free list iff its slab is here and it has no owner; counts per state
/// add up to `num_blocks`. All memory is allocated by the constructor, so no later call can fail for want of
/// it.
class block_pool {
 public:
  /// `num_blocks` is the most the pool can ever have; it starts with none. All arguments at least 1.
  block_pool(std::uint32_t num_blocks, std::uint32_t slab_blocks);

  std::uint32_t num_blocks() const noexcept { return static_cast<std::uint32_t>(blocks_.size()); }
  std::uint32_t count(block_state state) const noexcept { return counts_[static_cast<std::size_t>(state)]; }
  block_state state_of(block_id block) const;
  std::uint32_t num_owners(block_id block, block_owner owner) const;

  /// Blocks of the slab that `add_slab` would add next; 0 if all slabs are here.
  std::uint32_t next_slab_blocks() const noexcept;
  /// Makes the blocks of the absent slab with the lowest number free.
  void add_slab();
  /// Blocks of the slab that `remove_empty_slab` would remove; 0 if no slab is wholly free.
  std::uint32_t empty_slab_blocks() const noexcept;
  /// Removes the wholly free slab with the highest number.
  void remove_empty_slab();

  /// Appends `num` free blocks to `out`, each now owned by one table; all or nothing. False if fewer are
  /// free. Blocks of low slabs go first, so that high ones run empty. `out` must have room reserved.
  bool allocate(std::uint32_t num, std::vector<block_id>& out);

  /// Adds an owner of a block that has one already.
  void add_owner(block_id block, block_owner owner);
  /// Removes an owner; the block becomes free with the last one. Returns its new state.
  block_state remove_owner(block_id block, block_owner owner);

  expected<void> check_invariants() const;

 private:
  struct block_owners {
    std::uint32_t tables = 0;
    std::uint32_t releases = 0;
    bool indexed = false;
  };
  std::size_t slab_of(block_id block) const noexcept { return block.value / slab_blocks_; }
  std::uint32_t size_of_slab(std::size_t slab) const noexcept;
  const block_owners& owners_of(block_id block) const;
  /// Brings `open_` and `empty_` up to date with the slab's free list.
  void note_free_blocks(std::size_t slab) noexcept;
  void move_count(block_state from, block_state to, std::uint32_t num = 1) noexcept;

  std::uint32_t slab_blocks_;
  std::vector<block_owners> blocks_;
  std::vector<std::vector<block_id>> free_; ///< by slab; last in, first out
  slab_set absent_;                         ///< slabs that are not here
  slab_set open_;                           ///< slabs with a free block
  slab_set empty_;                          ///< slabs here that are wholly free
  std::array<std::uint32_t, num_block_states> counts_{};
};

} // namespace paceline::kv
