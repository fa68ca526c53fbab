#pragma once

#include "runtime/base/expected.hpp"
#include "runtime/base/ids.hpp"
#include "runtime/kv/slab_set.hpp"

#include <array>
#include <cstdint>
#include <vector>

namespace paceline::kv {

/// The kinds of owners of a block. A block without owners is free.
enum class block_owner : std::uint8_t {
  table,   ///< a request's block table, or a copy that still reads the block
  release, ///< a request gave the block back, but device work enqueued before that may still use it
  index,   ///< the prefix index; at most once
};

/// State of a block, derived from its owners: the first state of this list that applies.
enum class block_state : std::uint8_t {
  active,   ///< in a table
  deferred, ///< owned by releases, possibly also by the index, but in no table
  cached,   ///< owned by the index only: evictable
  free,     ///< present, without owners
  absent,   ///< its slab is not in the pool
};
inline constexpr std::size_t num_block_states = 5;

/// The blocks of one pool and their owners. Blocks are added and removed in slabs, which the caller borrows
/// from a `kv_budget`.
///
/// Invariants: a block is on exactly one free list if its slab is present and it has no owner, otherwise on
/// none; the counts per state add up to `num_blocks`. The constructor allocates all memory, so later calls
/// cannot run out of it.
class block_pool {
 public:
  /// `num_blocks` is the largest size of the pool, which starts empty. All arguments must be at least 1.
  block_pool(std::uint32_t num_blocks, std::uint32_t slab_blocks);

  std::uint32_t num_blocks() const noexcept { return static_cast<std::uint32_t>(blocks_.size()); }
  std::uint32_t count(block_state state) const noexcept { return counts_[static_cast<std::size_t>(state)]; }
  block_state state_of(block_id block) const;
  std::uint32_t num_owners(block_id block, block_owner owner) const;

  /// Number of blocks of the slab that `add_slab` would add next; 0 if all slabs are present.
  std::uint32_t next_slab_blocks() const noexcept;
  /// Adds the absent slab with the lowest number; its blocks become free.
  void add_slab();
  /// Number of blocks of the slab that `remove_empty_slab` would remove; 0 if no slab is entirely free.
  std::uint32_t empty_slab_blocks() const noexcept;
  /// Removes the entirely free slab with the highest number.
  void remove_empty_slab();

  /// Appends `num` free blocks to `out`, each with one table as its owner. Returns false and changes nothing
  /// if fewer are free. Takes blocks of low slabs first, so that high slabs become empty. `out` must have
  /// enough capacity.
  bool allocate(std::uint32_t num, std::vector<block_id>& out);

  /// Adds an owner to a block that already has one.
  void add_owner(block_id block, block_owner owner);
  /// Removes an owner and returns the block's new state; without owners it becomes free.
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
  /// Updates `open_` and `empty_` after a change of the slab's free list.
  void note_free_blocks(std::size_t slab) noexcept;
  void move_count(block_state from, block_state to, std::uint32_t num = 1) noexcept;

  std::uint32_t slab_blocks_;
  std::vector<block_owners> blocks_;
  std::vector<std::vector<block_id>> free_; ///< by slab; used as a stack
  slab_set absent_;                         ///< slabs that are not present
  slab_set open_;                           ///< slabs with a free block
  slab_set empty_;                          ///< present slabs that are entirely free
  std::array<std::uint32_t, num_block_states> counts_{};
};

} // namespace paceline::kv
