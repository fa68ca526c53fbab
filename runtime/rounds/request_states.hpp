#pragma once

#include "runtime/base/ids.hpp"
#include "runtime/kv/lease.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace paceline::rounds {

/// The recurrent states of one request, in the slots of its lease. One of them is the *current* state: the
/// state after the tokens whose KV is valid. A round writes the states of its rows into free slots. Then the
/// state of the last accepted row becomes the current one, and so the states of rejected rows are forgotten.
/// A round that fails leaves the current state unchanged.
///
/// Snapshots belong to the prefix cache and are never written again. In a beam search the prompt's state
/// remains the current one, and each hypothesis has a state of its own.
///
/// Threads: used by verify programs of the target's stream only.
class request_states {
 public:
  /// Begins a new lease. `num_for_rows` of its slots, at least 2, stay available for rows; the others are for
  /// snapshots.
  void restart(const kv::state_lease& lease, std::uint32_t num_for_rows);
  /// Slots handed out since the last `commit` or `hold` are free again.
  void begin_round() noexcept { num_used_ = 0; }

  /// The state that the next row continues; nullopt before the first one.
  std::optional<state_slot> current() const noexcept { return current_; }
  std::uint32_t num_free() const noexcept { return static_cast<std::uint32_t>(free_.size()) - num_used_; }
  /// A free slot, for one row of this round. There must be one.
  state_slot next();
  /// How many more states can become snapshots.
  std::uint32_t num_spare() const noexcept { return num_spare_; }

  /// Makes the state in `slot`, which this round wrote, the current one.
  void commit(state_slot slot);
  /// Makes the state in `slot` a snapshot. No effect if it is one already; otherwise `num_spare` must be > 0.
  void make_snapshot(state_slot slot);
  /// Sets which states are in use: those in `slots` and the current one. All other slots become free, except
  /// snapshots.
  void hold(std::span<const state_slot> slots);

 private:
  void collect_free(std::span<const state_slot> in_use);

  std::vector<state_slot> slots_; ///< of the lease, without snapshots
  std::vector<state_slot> free_;  ///< those not in use; the first `num_used_` are handed out in this round
  std::optional<state_slot> current_;
  std::uint32_t num_used_ = 0; ///< of `free_`, in this round
  std::uint32_t num_spare_ = 0;
};

} // namespace paceline::rounds
