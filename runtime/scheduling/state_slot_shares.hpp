#pragma once

#include <cstdint>

// Slots of recurrent states: how many a request needs, how many it asks for, and which of the states in them
// it keeps for other requests. Pure arithmetic; the scheduler asks, and rounds keep.

namespace paceline::scheduling {

/// State slots that a request needs without drafts: for the last token before a round and after it; for a
/// beam search for the prompt, and for each hypothesis before a round and after it.
constexpr std::uint32_t least_row_states(std::uint32_t beam_width) noexcept {
  return beam_width == 0 ? 2 : 1 + 2 * beam_width;
}

/// State slots without which a pool cannot serve a request: those, and one for the state that the request
/// found in the cache, or for its snapshot.
constexpr std::uint32_t least_state_slots(std::uint32_t beam_width) noexcept {
  return least_row_states(beam_width) + 1;
}

/// The draft nodes for which the slots for rows are enough, without beam search: each node needs one more.
constexpr std::uint32_t nodes_in_states(std::uint32_t num_row_states) noexcept {
  return num_row_states < least_row_states(0) ? 0 : num_row_states - least_row_states(0);
}

/// The places of a text at which a request keeps a snapshot: a state for other requests. Lengths in tokens.
struct snapshot_places {
  std::uint32_t prompt_end = 0; ///< `prompt_end_of`
  std::uint32_t common = 0;   ///< where the text leaves one that is cached without a state there; 0: nowhere
  std::uint32_t interval = 1; ///< from one regular place to the next
};

/// Chat templates end a prompt with at most so many tokens that the next turn does not repeat: "<think>" and
/// a line break, or an empty block of thoughts (Qwen3.5).
inline constexpr std::uint32_t max_unrepeated_tokens = 8;

/// Where the next turn of a conversation can begin: after the whole blocks of the prompt that it repeats. If
/// there is none, after the whole blocks before the prompt's last token, for the same prompt; 0: nowhere.
/// `prompt_length` is at least 1.
constexpr std::uint32_t prompt_end_of(std::uint32_t prompt_length, std::uint32_t block_size) noexcept {
  const auto repeated =
      prompt_length - (prompt_length < max_unrepeated_tokens ? prompt_length : max_unrepeated_tokens);
  const auto end = repeated / block_size * block_size;
  return end != 0 ? end : (prompt_length - 1) / block_size * block_size;
}

/// The most snapshots of a text of `positions`: one at each regular place, and those at the other two.
constexpr std::uint32_t max_snapshots(std::uint32_t positions, std::uint32_t interval) noexcept {
  return positions / interval + 2;
}

/// True if the state of the first `length` tokens is to be kept when `num_spare` slots are left for
/// snapshots. The next turn of a conversation begins at the end of the prompt, so the state there has
/// precedence. Then comes the one where the text leaves an earlier text, which usually is the end of a common
/// system prompt, and then those at regular places.
bool keeps_snapshot(const snapshot_places& at, std::uint32_t length, std::uint32_t num_spare) noexcept;

/// What decides how many state slots a request asks for.
struct slot_demand {
  std::uint32_t num_slots = 0;     ///< of the pool
  std::uint32_t max_running = 1;   ///< requests that may run together
  std::uint32_t num_others = 0;    ///< other requests that hold slots, or have asked for them
  std::uint64_t num_held = 0;      ///< slots of these
  std::uint32_t least = 0;         ///< slots that this request needs without drafts: `least_row_states`
  std::uint32_t num_nodes = 0;     ///< of its largest draft
  std::uint32_t num_snapshots = 0; ///< that it may keep
};

struct slot_share {
  std::uint32_t for_rows = 0;      ///< the state before a round, the last committed token, each draft node
  std::uint32_t for_snapshots = 0; ///< further ones
  bool operator==(const slot_share&) const = default;
};

/// The slots that a request asks for. It keeps them until it ends. So its drafts leave each further request
/// that may still run its minimum, with a snapshot if all can have one, and further snapshots take no slot
/// that such a request needs for drafts of the same size. The first snapshot has precedence: without it, the
/// next turn of a conversation would compute all of it again.
slot_share share_of(const slot_demand& demand) noexcept;

} // namespace paceline::scheduling
