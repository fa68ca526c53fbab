#pragma once

#include "runtime/base/ids.hpp"
#include "runtime/device/row_batch.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace paceline::scheduling {

/// The pool manager's commands. Each is one-way; `acquire` and `reserve` are answered by a `lease_event`.
/// `pool` is one of the sender's model.

/// First memory of a request: finds its longest cached prefix and leases blocks for `num_positions`.
struct acquire_command {
  request_id request;
  pool_number pool = target_pool;
  std::vector<token_id> tokens; ///< committed tokens, looked up in the prefix index
  std::string salt;
  bool use_cache = true;
  std::uint32_t num_positions = 0; ///< the lease shall cover positions 0 .. num_positions - 1
  std::uint64_t ticket = 0;        ///< comes back with the answer: an answer to an earlier question is stale
};

/// More memory: the lease shall cover `num_positions`.
struct reserve_command {
  request_id request;
  pool_number pool = target_pool;
  std::uint32_t num_positions = 0;
  std::uint64_t ticket = 0;
};

/// Tokens that a round committed, and how far the KV is final now: full blocks of it may serve other
/// requests.
struct commit_command {
  request_id request;
  pool_number pool = target_pool;
  std::uint32_t first_position = 0; ///< of tokens[0] in the sequence
  std::vector<token_id> tokens;     ///< may be empty: a chunk of the prompt was computed
  std::uint32_t num_final = 0;      ///< positions whose KV is final
};

/// A draft was rejected: positions from `num_positions` (look-ahead included) on are forgotten, whole blocks
/// beyond go back. The sender has shortened its own lease already.
struct rollback_command {
  request_id request;
  pool_number pool = target_pool;
  std::uint32_t num_positions = 0;
  std::uint64_t after = 0;
};

/// The request is over (or preempted). Its blocks are reused once the stream of `pool` has completed `after`
/// programs.
struct release_command {
  request_id request;
  pool_number pool = target_pool;
  std::uint64_t after = 0;
};

/// Sent after a pool manager was restarted: tables of requests that are not listed are closed (their release
/// was lost).
struct retain_command {
  std::vector<request_id> requests;
};

/// The stream of `pool` has completed `sequence` programs.
struct watermark_event {
  pool_number pool = target_pool;
  std::uint64_t sequence = 0;
};

using pool_command = std::variant<acquire_command, reserve_command, commit_command, rollback_command,
                                  release_command, retain_command, watermark_event>;

/// Answer to acquire and reserve. "Pool full" is an ordinary answer: `granted` is false and the old lease
/// stands.
struct lease_event {
  request_id request;
  pool_number pool = target_pool;
  std::uint64_t ticket = 0;
  bool granted = false;
  std::vector<block_id> blocks;        ///< the whole table
  std::uint32_t num_cached = 0;        ///< acquire: positions found in the prefix cache
  std::vector<device::kv_copy> copies; ///< acquire: to be carried out before the first pass
};

} // namespace paceline::scheduling
