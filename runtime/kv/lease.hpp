#pragma once

#include "runtime/base/ids.hpp"
#include "runtime/device/row_batch.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace paceline::kv {

/// One pool of a pool_manager: the blocks of one model or one drafter.
using pool_id = strong_id<struct pool_id_tag, std::uint32_t>;
/// A device stream whose progress (watermark) frees blocks. The engine numbers its streams; numbers are not
/// reused.
using stream_id = strong_id<struct stream_id_tag, std::uint32_t>;

/// A point on a stream, passed once the stream has completed `sequence` submissions. Sequence 0 has always
/// passed.
struct stream_point {
  stream_id stream;
  std::uint64_t sequence = 0;
};

/// Identifies the lease that a command is about. The epoch identifies late commands for an earlier lease of
/// the request: they get `errc::stale` and change nothing.
struct lease_key {
  pool_id pool;
  request_id request;
  paceline::epoch epoch;

  friend bool operator==(const lease_key&, const lease_key&) = default;
};

/// What a request may use of one pool. A value, valid until its holder sends `rollback` or `release`. Between
/// rollbacks, later leases of the same epoch only append blocks.
struct lease {
  lease_key key;
  std::vector<block_id> blocks; ///< block table: slot s lies in blocks[s / block_size]
  std::uint32_t capacity = 0;   ///< slots: blocks.size() * block_size
  std::uint32_t length = 0;     ///< leading slots with final keys and values
};

/// The state slots of a request. A value, valid as long as its lease.
struct state_lease {
  std::vector<state_slot> slots;     ///< slots that the request may write
  std::optional<state_slot> initial; ///< the state after the lease's first `length` tokens; nullopt: length 0
  /// Number of leading tokens, in whole blocks, whose keys and values are cached while the state after them
  /// is not; 0: none. A snapshot at this length serves the next request with the same leading tokens.
  std::uint32_t cached_without_state = 0;
};

/// A state that the prefix cache keeps for other requests.
struct state_snapshot {
  std::uint32_t length = 0; ///< committed tokens before this state; a multiple of the block size
  state_slot slot;          ///< of the request's lease; nobody writes it from now on
};

/// A new lease, and the copies to be made before its first pass: in order, on the stream that will use the
/// lease.
struct new_lease {
  kv::lease lease;
  std::vector<device::kv_copy> copies;
  state_lease states; ///< of a pool with states
};

} // namespace paceline::kv
