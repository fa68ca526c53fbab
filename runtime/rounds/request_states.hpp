#pragma once

#include "runtime/base/ids.hpp"
#include "runtime/kv/lease.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace paceline::rounds {

/// The recurrent states of one request, in the slots of its lease. One of them is the *current* state: that
/// of the tokens whose KV is valid. A round writes the states of its rows into free slots, and then one of
/// these becomes the current one: so a rejected draft is forgotten by choosing the slot of the last accepted
/// row, and a round that fails has changed nothing.
///
/// Snapshots belong to the prefix cache and are never written again. A beam search has the states of its
/// hypotheses beside the current one, which remains that of the prompt.
///
/// Threads: used by verify programs of the target's stream only.
class request_states {
 public:
  /// A new lease. `num_for_rows` of its slots stay available for rows; the others are for snapshots.
  void restart(const kv::state_lease& lease, std::uint32_t num_for_rows);
  /// Slots handed out since the last `commit` or `hold` are free again.
  void begin_round() noexcept { num_used_ = 0; }

  /// The state that the next row continues; nullopt before the first one.
  std::optional<state_slot> current() const noexcept { return current_; }
  std::uint32_t num_free() const noexcept { return static_cast<std::uint32_t>(free_.size()) - num_used_; }
  /// A free slot, for one row of this round. There must be one.
  state_slot next();
  /// How many states can become snapshots.
  std::uint32_t num_spare() const noexcept { return num_spare_; }

  /// The state in `slot`, which this round wrote, is the current one.
  void commit(state_slot slot);
  /// The state in `slot` is a snapshot from now on. Requires `num_spare` > 0, unless it is one already, which
  /// changes nothing.
  void make_snapshot(state_slot slot);
  /// Exactly these and the current state are in use.
  void hold(std::span<const state_slot> slots);

 private:
  void collect_free(std::span<const state_slot> in_use);

  std::vector<state_slot> slots_; ///< of the lease, without snapshots
  std::vector<state_slot> free_;  ///< those not in use, those handed out first
  std::optional<state_slot> current_;
  std::uint32_t num_used_ = 0; ///< of `free_`, in this round
  std::uint32_t num_spare_ = 0;
};

} // namespace paceline::rounds
