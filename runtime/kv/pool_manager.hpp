#pragma once

#include "runtime/base/expected.hpp"
#include "runtime/base/ids.hpp"
#include "runtime/kv/block_hash.hpp"
#include "runtime/kv/block_pool.hpp"
#include "runtime/kv/kv_budget.hpp"
#include "runtime/kv/lease.hpp"
#include "runtime/kv/pool_figures.hpp"
#include "runtime/kv/state_slot_pool.hpp"

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::kv {

struct block_table;
struct pool_book;

/// Configuration of one pool: the KV blocks of a model or drafter. Memory exists for `num_blocks`; the budget
/// decides how many of them may be in use at the same time.
struct pool_config {
  std::string name;               ///< for messages and metrics
  std::uint32_t num_blocks = 0;   ///< largest number of blocks in use
  std::uint32_t block_size = 16;  ///< cells (tokens) in a block
  std::uint64_t block_bytes = 0;  ///< charged to the budget for one block
  std::uint32_t slab_blocks = 64; ///< blocks borrowed and returned at a time
  std::uint32_t min_blocks = 0;   ///< reserved for this pool (rounded up to slabs)
  std::uint32_t space = 0;        ///< memory space that its blocks lie in
  bool prefix_cache = true;
  /// True: cached tokens that were computed as prompt do not match tokens computed as output. No device needs
  /// this: on a strict device (`compute_device::is_strict`) the cells have the same bits either way, and in
  /// fast mode the bits of cells are not guaranteed.
  bool separate_origins = false;
  /// Slots of recurrent states; 0: the model has no such states. All their memory is allocated before the
  /// first pass, as part of `engine.memory_budget`. The manager's byte budgets are for blocks only.
  std::uint32_t num_state_slots = 0;
  std::uint32_t min_state_slots = 0; ///< for one request; used when a memory plan is made
  std::uint64_t state_bytes = 0;     ///< of one slot; used when a memory plan is made
};

/// A request that enters a pool.
struct acquire_options {
  /// Committed tokens, at least one: the prompt and, if a request resumes, its output so far.
  std::span<const token_id> tokens;
  std::uint32_t num_prompt_tokens = 0; ///< leading `tokens` that belong to the prompt
  std::string_view salt;               ///< only requests with the same salt share prefixes
  std::uint32_t reserve_length = 0;    ///< slots to reserve
  bool use_cache = true;               ///< false: compute everything and do not use cached blocks
  /// State slots for the rows of passes, in a pool that has them. The request gets at most `max_state_slots`
  /// of the slots that are free or hold idle snapshots, and is refused if there are fewer than
  /// `min_state_slots`.
  std::uint32_t min_state_slots = 0;
  std::uint32_t max_state_slots = 0;
  /// Largest number of additional slots, for snapshots. They are taken from the free slots. If fewer than two
  /// slots are free, idle snapshots are evicted until two are free. No more are evicted, because a request
  /// must not empty the cache for slots that it may never use.
  std::uint32_t num_snapshot_slots = 0;
};

/// What a pool knows of a request's text. Views: valid until the next command.
struct committed_text {
  std::span<const token_id> tokens;
  std::string_view salt;
};

/// The owner of all KV memory: every block of every pool, in memory spaces (the host's, a GPU's) with one
/// byte budget each. Pools of the same space lend each other unused memory. Bookkeeping only: it accesses no
/// device memory and uses no clock, thread or device. Deterministic. Not thread-safe.
///
/// Errors: `errc::pool_full` if too few blocks are available now, and `errc::state_slots_full` if too few
/// state slots are available now (both are ordinary answers); `errc::resource_exhausted` if the command needs
/// more than the pool can ever have; `errc::stale` if the key's request or epoch has ended; and
/// `errc::invalid_argument` if a command contradicts the table. A command that returns an error, or throws
/// bad_alloc, may have evicted cached blocks and has changed nothing else.
///
/// Invariants, checked by `check_invariants`:
/// - The owners of a block are the tables, deferred releases and index node that name it. A block without an
/// owner is free.
/// - A block in more than one table is full of committed cells in each of them, so nobody writes to it.
/// - Only full blocks of committed tokens are in an index.
/// - A block that leaves a table is then owned by a deferred release, until the release's stream point has
/// passed.
/// - The owners of a state slot are the tables and deferred releases that name it, and the index.
/// - The pools hold exactly what the budget has lent them.
class pool_manager {
 public:
  /// For one memory space.
  explicit pool_manager(std::uint64_t budget_bytes, block_hasher hasher = make_block_hasher())
      : pool_manager(std::vector{budget_bytes}, std::move(hasher)) {}
  /// Spaces are numbered from 0; `budgets[space]` is in bytes.
  explicit pool_manager(const std::vector<std::uint64_t>& budgets, block_hasher hasher = make_block_hasher());
  ~pool_manager();
  pool_manager(const pool_manager&) = delete;
  pool_manager& operator=(const pool_manager&) = delete;

  /// Pools are numbered from 0. Errors: `errc::invalid_argument` for a bad configuration,
  /// `errc::resource_exhausted` if the minimum does not fit into the budget of the pool's space.
  expected<pool_id> add_pool(pool_config config);

  /// Opens a table for `request`. It begins with the prefix of the tokens that was found in the prefix cache:
  /// the first `lease.length` slots of the answer need not be computed. The last token never counts as
  /// cached, because its logits are needed.
  expected<new_lease> acquire(pool_id pool, request_id request, const acquire_options& options);
  /// Extends the lease to slots below `length`, look-ahead included. Never shrinks it: for a smaller length
  /// it returns the lease unchanged.
  expected<lease> reserve(const lease_key& key, std::uint32_t length);
  /// Appends `tokens` to the committed tokens, and declares the first `length` slots final. The passes that
  /// wrote these slots must have completed, and `length` must not exceed the number of committed tokens. Adds
  /// blocks that became full to the prefix index. `snapshots` are states after full final blocks. Each is
  /// kept with its block in the index, unless that block has a snapshot already.
  expected<void> commit(const lease_key& key, std::span<const token_id> tokens, std::uint32_t length,
                        std::span<const state_snapshot> snapshots = {});
  /// Returns the blocks that have no slot below `length`, which must not be less than the number of final
  /// slots. `after` is a point after all work that was enqueued with the longer lease.
  expected<void> rollback(const lease_key& key, std::uint32_t length, stream_point after);
  /// Closes a table: the request has ended, was preempted or lost its lease. `after` is as for rollback.
  expected<void> release(const lease_key& key, stream_point after);

  /// `stream` has completed `sequence` submissions. A number below the last one is ignored.
  void on_watermark(stream_id stream, std::uint64_t sequence);

  std::uint32_t num_pools() const noexcept { return static_cast<std::uint32_t>(pools_.size()); }
  const pool_config& config(pool_id pool) const;
  /// The committed tokens of a lease; nullopt if the lease has ended.
  std::optional<committed_text> text_of(const lease_key& key) const;
  pool_usage usage(pool_id pool) const;
  const pool_counters& counters(pool_id pool) const;
  const kv_budget& budget(std::uint32_t space = 0) const { return budgets_.at(space); }
  /// Number of blocks that the pool could hold if all other pools of its space shrank to their minimum.
  std::uint32_t reach_blocks(pool_id pool) const;
  /// Upper bound of the blocks that `reserve` and `acquire` could get now without a release.
  std::uint32_t available_blocks(pool_id pool) const;
  /// The state slots of a pool; null if it has none.
  const state_slot_pool* state_slots(pool_id pool) const;

  expected<void> check_invariants() const;

 private:
  /// Blocks of a release or rollback that device work may still use.
  struct deferred_release {
    std::size_t pool;
    stream_point after;
    std::vector<block_id> blocks; ///< in table order
    std::vector<state_slot> states = {};
  };

  pool_book& book(pool_id pool) const;
  kv_budget& budget_of(const pool_book& pool);
  const kv_budget& budget_of(const pool_book& pool) const;
  /// The table of the key, or `errc::stale`.
  expected<block_table*> table_of(const lease_key& key);
  error pool_full(pool_book& pool, std::uint64_t num_wanted);
  error state_slots_full(pool_book& pool, std::uint32_t num_wanted);
  expected<void> check_reach(pool_id pool, std::uint64_t num_blocks) const;
  expected<void> check_unshared(pool_id pool, const acquire_options& options);
  paceline::epoch next_epoch() noexcept { return paceline::epoch{++last_epoch_}; }

  // Implemented in pool_memory.cpp:
  /// Makes `num` blocks of `pool` free. First borrows slabs. Then evicts cached prefixes of the pool
  /// and of other pools of its space, least recently used first, and borrows the slabs that become free
  /// there. Returns false if that does not suffice. Never allocates memory.
  bool make_room(pool_book& pool, std::uint32_t num);
  /// The pool with the least recently used cached block, among `pool` and the pools that may give it memory.
  /// Null if none has a cached block.
  pool_book* least_recently_used(const pool_book& pool) const;
  /// Like `make_room`. If necessary it gives up `block_table::copy_source`. The request then computes the
  /// cells that would have been copied, and needs no additional block for this. So a request that would fit
  /// without a cached prefix also fits with one.
  bool make_room_for(pool_book& pool, block_table& table, std::uint32_t num);
  bool borrow_slabs(pool_book& pool, std::uint32_t num_free);
  void return_slabs(pool_book& pool);
  void drop(pool_book& pool, block_id block, block_owner owner);
  bool evict_one(pool_book& pool);
  /// Number of deferred releases that name each state slot.
  std::vector<std::uint32_t> deferred_states(const pool_book& pool) const;
  /// Takes state slots for a new table. There must be enough.
  static void take_state_slots(state_slot_pool& pool, block_table& table, const acquire_options& options);
  /// Moves the blocks of `entry`, a list with one element, from their table to the deferred releases.
  void take_off(std::list<deferred_release>& entry);
  void carry_out(const deferred_release& r);
  bool passed(const stream_point& point) const noexcept;

  std::vector<kv_budget> budgets_; ///< [space]
  block_hasher hasher_;
  std::vector<std::unique_ptr<pool_book>> pools_;
  std::list<deferred_release> deferred_;
  std::map<stream_id, std::uint64_t> watermarks_;
  std::uint32_t last_epoch_ = 0;
  std::uint64_t last_use_ = 0; ///< counts removals of owners in all pools; serves as the time of last use
};

} // namespace paceline::kv
