#pragma once

#include "runtime/base/expected.hpp"
#include "runtime/base/ids.hpp"
#include "runtime/kv/block_hash.hpp"
#include "runtime/kv/block_pool.hpp"
#include "runtime/kv/kv_budget.hpp"
#include "runtime/kv/lease.hpp"
#include "runtime/kv/pool_figures.hpp"

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::kv {

struct block_table;
struct pool_state;

/// One pool: the KV blocks of a model or drafter. Its memory is made for `num_blocks`; how many of them may
/// be in use at a time is a matter of the budget.
struct pool_config {
  std::string name;               ///< for messages and metrics
  std::uint32_t num_blocks = 0;   ///< most blocks it can ever use
  std::uint32_t block_size = 16;  ///< cells (tokens) a block
  std::uint64_t block_bytes = 0;  ///< of the budget
  std::uint32_t slab_blocks = 64; ///< blocks borrowed and returned at a time
  std::uint32_t min_blocks = 0;   ///< always this pool's (rounded up to slabs)
  std::uint32_t space = 0;        ///< memory space that its blocks lie in
  bool prefix_cache = true;
  /// Cells computed as prompt and as output differ in their bits (GPU strict mode): prefixes match only where
  /// both were made the same way.
  bool separate_origins = false;
};

/// A request as it enters a pool.
struct acquire_options {
  /// Committed tokens, at least one: the prompt and, for a request that resumes, its output so far.
  std::span<const token_id> tokens;
  std::uint32_t num_prompt_tokens = 0; ///< leading `tokens` that are prompt
  std::string_view salt;               ///< prefixes are shared within one salt only
  std::uint32_t reserve_length = 0;    ///< slots to reserve at once
  bool use_cache = true;               ///< false: compute everything, share nothing that others made
};

/// The one owner of KV memory: every block of every pool, in memory spaces (the host's, a GPU's) that have a
/// byte budget each. Pools of one space lend each other what they do not use; those of different spaces
/// cannot. Bookkeeping only: it touches no memory and knows no clock, thread or device. Deterministic.
///
/// Commands answer `errc::pool_full` when blocks are missing now (an ordinary answer),
/// `errc::resource_exhausted` when they could never be had, `errc::stale` when the key's request or epoch is
/// over, and `errc::invalid_argument` for a command that contradicts the table. A command that answers an
/// error, or throws bad_alloc, has changed nothing but what is cached.
///
/// Invariants, checked by `check_invariants` from the tables themselves:
/// - a block's owners are the tables, deferred releases and index node that name it; without owner it is
/// free;
/// - a block that more than one table names is full of committed cells in each, so nobody writes to it;
/// - only full blocks of committed tokens are in an index;
/// - a block leaves a table only into a deferred release, and is free only after the stream point of that
/// release;
/// - what pools hold is what the budget lent them.
class pool_manager {
 public:
  /// One memory space.
  explicit pool_manager(std::uint64_t budget_bytes, block_hasher hasher = make_block_hasher())
      : pool_manager(std::vector{budget_bytes}, std::move(hasher)) {}
  /// Spaces are numbered from 0; `budgets` has the bytes of each.
  explicit pool_manager(const std::vector<std::uint64_t>& budgets, block_hasher hasher = make_block_hasher());
  ~pool_manager();
  pool_manager(const pool_manager&) = delete;
  pool_manager& operator=(const pool_manager&) = delete;

  /// Pools are numbered from 0. Fails if the minimum does not fit into the budget of the pool's space.
  expected<pool_id> add_pool(pool_config config);

  /// Opens a table for `request`, sharing what the prefix cache has of its tokens: the answer's
  /// `lease.length` slots need not be computed. The last token never counts as cached, as its logits are
  /// needed.
  expected<new_lease> acquire(pool_id pool, request_id request, const acquire_options& options);
  /// Makes room for slots up to `length`, look-ahead included. Never shrinks: a length that is there already
  /// gets the lease as it is.
  expected<lease> reserve(const lease_key& key, std::uint32_t length);
  /// Appends `tokens` to the committed tokens, and declares the first `length` slots final: their passes have
  /// completed and `length` does not exceed the committed tokens. Publishes blocks that became full.
  expected<void> commit(const lease_key& key, std::span<const token_id> tokens, std::uint32_t length);
  /// Gives back blocks wholly beyond slot `length`, which must not lie below the final slots. `after` is a
  /// point after all work that was enqueued with the longer lease.
  expected<void> rollback(const lease_key& key, std::uint32_t length, stream_point after);
  /// Closes a table: the request is over, preempted, or its lease lost. `after` as for rollback.
  expected<void> release(const lease_key& key, stream_point after);

  /// `stream` has completed `sequence` submissions; older news than known is ignored.
  void on_watermark(stream_id stream, std::uint64_t sequence);

  std::uint32_t num_pools() const noexcept { return static_cast<std::uint32_t>(pools_.size()); }
  const pool_config& config(pool_id pool) const;
  pool_usage usage(pool_id pool) const;
  const pool_counters& counters(pool_id pool) const;
  const kv_budget& budget(std::uint32_t space = 0) const { return budgets_.at(space); }
  /// Blocks the pool could hold if all others of its space shrank to their minimum.
  std::uint32_t reach_blocks(pool_id pool) const;
  /// Blocks that `reserve` and `acquire` could find now without anybody's release: at most this many.
  std::uint32_t available_blocks(pool_id pool) const;

  expected<void> check_invariants() const;

 private:
  /// A release or rollback: blocks that device work may still touch.
  struct deferred_release {
    std::size_t pool;
    stream_point after;
    std::vector<block_id> blocks; ///< in table order
  };

  pool_state& state(pool_id pool) const;
  kv_budget& budget_of(const pool_state& pool);
  const kv_budget& budget_of(const pool_state& pool) const;
  /// The key's table, or `errc::stale`.
  expected<block_table*> table_of(const lease_key& key);
  expected<lease> append_blocks(pool_state& pool, const lease_key& key, block_table& table,
                                std::uint32_t num);
  error pool_full(pool_state& pool, std::uint64_t num_wanted);
  expected<void> check_reach(pool_id pool, std::uint64_t num_blocks) const;
  paceline::epoch next_epoch() noexcept { return paceline::epoch{++last_epoch_}; }

  // pool_memory.cpp
  /// Sees to it that `num` blocks of `pool` are free: borrows slabs, then evicts the pool's own prefixes,
  /// then those of other pools for their slabs. Never allocates.
  bool make_room(pool_state& pool, std::uint32_t num);
  /// As `make_room`, if need be without the block that the first cells of `table` were to be copied from:
  /// computed again, they need no block beside the request's own, so a request that fits alone always does.
  bool make_room_for(pool_state& pool, block_table& table, std::uint32_t num);
  bool borrow_slabs(pool_state& pool, std::uint32_t num_free);
  void return_slabs(pool_state& pool);
  bool evict_one(pool_state& pool);
  /// Hands the blocks of `entry`, a list of one, from their table to a deferred release.
  void take_off(std::list<deferred_release>& entry);
  void carry_out(const deferred_release& r);
  bool passed(const stream_point& point) const noexcept;

  std::vector<kv_budget> budgets_; ///< [space]
  block_hasher hasher_;
  std::vector<std::unique_ptr<pool_state>> pools_;
  std::list<deferred_release> deferred_;
  std::map<stream_id, std::uint64_t> watermarks_;
  std::uint32_t last_epoch_ = 0;
};

} // namespace paceline::kv
