#pragma once

#include <cstdint>

// Slots of recurrent states: how many a request needs, how many it asks for, and which of its states it keeps
// for other requests. Arithmetic only: the scheduler asks the pool, and the verify programs keep the states.

namespace paceline::scheduling {

/// Number of state slots that a request needs without drafts: one for the state before a round and one for
/// the state after it. A beam search (width > 0) needs one for the prompt and two for each hypothesis.
constexpr std::uint32_t least_row_states(std::uint32_t beam_width) noexcept {
  return beam_width == 0 ? 2 : 1 + 2 * beam_width;
}

/// Number of state slots without which a pool cannot serve a request: `least_row_states`, and one for the
/// state that the request found in the cache, or for its snapshot.
constexpr std::uint32_t least_state_slots(std::uint32_t beam_width) noexcept {
  return least_row_states(beam_width) + 1;
}

/// Largest number of draft nodes for which `num_row_states` slots suffice, without beam search: each node
/// needs one slot.
constexpr std::uint32_t nodes_in_states(std::uint32_t num_row_states) noexcept {
  return num_row_states < least_row_states(0) ? 0 : num_row_states - least_row_states(0);
}

/// The places of a text at which a request keeps a snapshot: a state for other requests. Lengths in tokens.
struct snapshot_places {
  std::uint32_t prompt_end = 0; ///< `prompt_end_of`
  /// Length of the prefix whose blocks are cached without a state after them
  /// (`kv::state_lease::cached_without_state`); 0: none.
  std::uint32_t common = 0;
  std::uint32_t interval = 1; ///< from one regular place to the next
};

/// Chat templates end a prompt with at most this many tokens that the next turn does not repeat: "<think>"
/// and a line break, or an empty block of thoughts (Qwen3.5).
inline constexpr std::uint32_t max_unrepeated_tokens = 8;

/// Length, in tokens, of the part of the prompt after which the next turn of a conversation can continue: the
/// whole blocks that the next turn repeats. If it repeats no whole block, the result is the length of the
/// whole blocks before the prompt's last token, after which a request with the same prompt can continue.
/// 0: there is no whole block. `prompt_length` is at least 1.
constexpr std::uint32_t prompt_end_of(std::uint32_t prompt_length, std::uint32_t block_size) noexcept {
  const auto repeated =
      prompt_length - (prompt_length < max_unrepeated_tokens ? prompt_length : max_unrepeated_tokens);
  const auto end = repeated / block_size * block_size;
  return end != 0 ? end : (prompt_length - 1) / block_size * block_size;
}

/// Largest number of snapshots of a text of `positions` tokens: one at each regular place, and one at each of
/// the other two places.
constexpr std::uint32_t max_snapshots(std::uint32_t positions, std::uint32_t interval) noexcept {
  return positions / interval + 2;
}

/// True if the state of the first `length` tokens is to be kept when `num_spare` slots are left for
/// snapshots. The state at `prompt_end` has precedence, because the next turn of a conversation continues
/// from it. The state at `common` comes second: it is usually the state after a common system prompt. States
/// at regular places come last.
bool keeps_snapshot(const snapshot_places& at, std::uint32_t length, std::uint32_t num_spare) noexcept;

/// The inputs of `share_of`.
struct slot_demand {
  std::uint32_t num_slots = 0;     ///< of the pool
  std::uint32_t max_running = 1;   ///< requests that may run together
  std::uint32_t num_others = 0;    ///< other requests that hold slots, or have asked for them
  std::uint64_t num_held = 0;      ///< slots that these requests hold or have asked for
  std::uint32_t least = 0;         ///< slots that this request needs without drafts: `least_row_states`
  std::uint32_t num_nodes = 0;     ///< nodes of its largest draft
  std::uint32_t num_snapshots = 0; ///< largest number of snapshots that it may keep
};

struct slot_share {
  std::uint32_t for_rows = 0;      ///< for the state before a round, the last token and each draft node
  std::uint32_t for_snapshots = 0; ///< additional slots
  bool operator==(const slot_share&) const = default;
};

/// The number of slots that a request asks for. It keeps them until it ends or is preempted, so it leaves
/// slots for each request that may start meanwhile:
/// - It takes slots for drafts only as long as `least_row_states(0)` slots remain for each such request, and
///   one more for a snapshot if the pool has enough for all.
/// - It takes slots for further snapshots, after its first, only as long as each such request can also have
///   slots for a draft of the same size.
/// The request's own first snapshot has precedence over its drafts: without it, the next turn of the
/// conversation would compute the whole text again.
slot_share share_of(const slot_demand& demand) noexcept;

} // namespace paceline::scheduling
