#pragma once

#include "runtime/base/ids.hpp"
#include "runtime/device/row_batch.hpp"
#include "runtime/kv/lease.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace paceline::scheduling {

/// Commands to the pool manager. They are one-way; those that ask for blocks are answered by a `lease_event`.
/// `pool` is a pool of the sender's model.

/// Asks for the first lease of a request: finds its longest cached prefix and leases blocks for
/// `num_positions`. If the request already has a lease, the answer that granted that lease was lost, and its
/// blocks were never used. The old lease ends.
struct acquire_command {
  request_id request;
  pool_number pool = target_pool;
  std::vector<token_id> tokens; ///< committed tokens, looked up in the prefix index
  std::string salt;
  bool use_cache = true;
  std::uint32_t num_positions = 0;   ///< the lease shall cover positions 0 .. num_positions - 1
  std::uint64_t ticket = 0;          ///< returned in the answer: an answer with an older ticket is stale
  std::uint32_t min_state_slots = 0; ///< slots of recurrent states, of a model that has these
  std::uint32_t max_state_slots = 0;
  std::uint32_t num_snapshot_slots = 0; ///< additional state slots, for snapshots
};

/// The same in a drafter's pool. The text is the one that the target's pool has for this request.
struct acquire_for_drafter_command {
  request_id request;
  pool_number pool;
  std::uint32_t num_positions = 0;
  std::uint64_t ticket = 0;
  /// Index of the request's token with which the drafter's text begins
  /// (`speculation::drafter_traits::text_begin`); nullopt: no cells are shared with other requests.
  std::optional<std::uint32_t> text_begin = {};
};

/// Extends a lease to `num_positions` positions.
struct reserve_command {
  request_id request;
  pool_number pool = target_pool;
  std::uint32_t num_positions = 0;
  std::uint64_t ticket = 0;
};

/// Tokens that a round committed, and the number of positions whose KV is final. Full blocks of final
/// positions may be shared with other requests. In a drafter's pool `tokens` is empty, because the target's
/// pool has them.
struct commit_command {
  request_id request;
  pool_number pool = target_pool;
  std::uint32_t first_position = 0;               ///< position of tokens[0] in the sequence
  std::vector<token_id> tokens;                   ///< empty if only a chunk of the prompt was computed
  std::uint32_t num_final = 0;                    ///< positions whose KV is final
  std::vector<kv::state_snapshot> snapshots = {}; ///< states that the prefix cache keeps
};

/// Keeps the first `num_positions` positions, which include the look-ahead slots that are still wanted, and
/// returns the blocks that lie entirely beyond them. The returned blocks are reused once the stream of
/// `pool` has completed `after` programs. The sender has already shortened its own lease.
struct rollback_command {
  request_id request;
  pool_number pool = target_pool;
  std::uint32_t num_positions = 0;
  std::uint64_t after = 0;
};

/// Ends the request's lease. Its blocks are reused once the stream of `pool` has completed `after` programs.
struct release_command {
  request_id request;
  pool_number pool = target_pool;
  std::uint64_t after = 0;
};

/// Ends the model's leases that are not listed. Sent when the model goes out of service, and after a restart
/// of the pool manager, which loses messages.
struct retain_command {
  struct lease {
    request_id request;
    pool_number pool = target_pool;
    bool operator==(const lease&) const = default;
  };
  std::vector<lease> leases;
};

/// The stream of `pool` has completed `sequence` programs.
struct watermark_event {
  pool_number pool = target_pool;
  std::uint64_t sequence = 0;
};

using pool_command =
    std::variant<acquire_command, acquire_for_drafter_command, reserve_command, commit_command,
                 rollback_command, release_command, retain_command, watermark_event>;

/// Answer to a command that asks for blocks. "Pool full" is an ordinary answer: `granted` is false, and the
/// old lease remains valid.
struct lease_event {
  request_id request;
  pool_number pool = target_pool;
  std::uint64_t ticket = 0;
  bool granted = false;
  std::vector<block_id> blocks;        ///< the whole block table
  std::uint32_t num_cached = 0;        ///< of a first lease: positions found in the prefix cache
  std::vector<device::kv_copy> copies; ///< of a first lease: to be made before the first pass
  kv::state_lease states = {};         ///< of a first lease
  bool lacks_states = false;           ///< not granted because state slots are missing, not blocks
};

} // namespace paceline::scheduling
