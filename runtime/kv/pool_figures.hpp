#pragma once

#include <cstdint>

namespace paceline::kv {

/// Current number of blocks by state. `active + deferred + cached + free` blocks are lent to the pool.
struct pool_usage {
  std::uint32_t num_active = 0;
  std::uint32_t num_deferred = 0; ///< given back; become free or cached once their stream points have passed
  std::uint32_t num_cached = 0;   ///< evictable
  std::uint32_t num_free = 0;
  std::uint32_t num_absent = 0; ///< not lent to the pool at present
  std::uint32_t num_requests = 0;
  /// State slots, in a pool that has them: slots that requests or deferred releases own, slots with snapshots
  /// that only the prefix index owns, and free slots.
  std::uint32_t num_held_state_slots = 0;
  std::uint32_t num_idle_snapshots = 0;
  std::uint32_t num_free_state_slots = 0;
};

/// Totals since the pool was created.
struct pool_counters {
  std::uint64_t num_queried_tokens = 0; ///< committed tokens with which requests acquired a lease
  std::uint64_t num_hit_tokens = 0;     ///< of those, tokens found in the prefix cache
  std::uint64_t num_evicted_blocks = 0;
  std::uint64_t num_rollbacks = 0; ///< rollbacks that returned at least one block
  std::uint64_t num_rolled_back_blocks = 0;
  std::uint64_t num_pool_full = 0; ///< commands refused because blocks or state slots were missing
  std::uint64_t num_stale_commands = 0;
};

} // namespace paceline::kv
