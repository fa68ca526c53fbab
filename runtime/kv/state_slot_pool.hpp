#pragma once

#include "runtime/base/expected.hpp"
#include "runtime/base/ids.hpp"
#include "runtime/kv/block_pool.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace paceline::kv {

/// The slots of recurrent states of one pool, and their owners. A slot has the same kinds of owners as a
/// block (`block_owner`). A slot holds the state of one sequence at one position. A table owns the slots
/// that its request may write. The request writes no slot that the prefix index owns.
///
/// The index owns *snapshots*: slots with the state after the last token of an indexed block. A prefix of a
/// request's tokens can be reused only up to a block with a snapshot, because a state cannot be computed from
/// the keys and values of cells. A snapshot without other owners is idle and can be evicted, least recently
/// used first.
///
/// The constructor allocates all memory, so later calls cannot run out of it.
class state_slot_pool {
 public:
  /// For a pool of `num_blocks` blocks. Both arguments must be at least 1.
  state_slot_pool(std::uint32_t num_slots, std::uint32_t num_blocks);

  std::uint32_t num_slots() const noexcept { return slots_.num_blocks(); }
  std::uint32_t num_free() const noexcept { return slots_.count(block_state::free); }
  std::uint32_t num_snapshots() const noexcept { return num_snapshots_; }
  std::uint32_t num_idle() const noexcept { return slots_.count(block_state::cached); }
  /// Slots that tables and releases own.
  std::uint32_t num_held() const noexcept {
    return slots_.count(block_state::active) + slots_.count(block_state::deferred);
  }
  /// True if `slot` is a snapshot that only the index owns.
  bool is_idle(state_slot slot) const { return slots_.state_of(block_id{slot.value}) == block_state::cached; }
  std::uint32_t num_owners(state_slot slot, block_owner owner) const {
    return slots_.num_owners(block_id{slot.value}, owner);
  }

  /// Appends `num` slots to `out`, each with one table as its owner. Evicts idle snapshots if too few slots
  /// are free. Returns false and changes nothing if fewer than `num` slots are free or idle. `out` must have
  /// enough capacity.
  bool allocate(std::uint32_t num, std::vector<state_slot>& out);
  void add_owner(state_slot slot, block_owner owner) { slots_.add_owner(block_id{slot.value}, owner); }
  /// Removes an owner. `now` is recorded as the time of the slot's last use. It must not decrease from one
  /// call to the next.
  void remove_owner(state_slot slot, block_owner owner, std::uint64_t now);

  /// The snapshot after an indexed block; nullopt if there is none.
  std::optional<state_slot> snapshot_after(block_id block) const;
  /// Makes `slot` the snapshot after an indexed block that has no snapshot. The slot must have an owner.
  void add_snapshot(block_id block, state_slot slot);
  /// Removes the block's snapshot, if there is one, from the index, because the block has left the index.
  void forget(block_id block);

  expected<void> check_invariants() const;

 private:
  static constexpr std::uint32_t none = 0xFFFF'FFFF;

  struct snapshot {
    std::uint32_t block = none;
    std::uint64_t last_use = 0;
  };
  void evict_one();

  block_pool slots_;
  std::vector<snapshot> snapshots_;    ///< by slot
  std::vector<std::uint32_t> slot_of_; ///< by block: its snapshot
  std::vector<block_id> taken_;        ///< used within `allocate`
  std::uint32_t num_snapshots_ = 0;
};

} // namespace paceline::kv
