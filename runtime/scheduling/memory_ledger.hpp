#pragma once

#include "runtime/base/ids.hpp"
#include "runtime/scheduling/pool_commands.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace paceline::scheduling {

/// How far ahead a lease should reach: for this round and the next.
enum class look_ahead : std::uint8_t {
  plain, ///< without drafts; with less the request cannot run
  chain, ///< for the levels of the draft
  tree,  ///< for all its nodes
};

/// Positions that a lease has with each look-ahead.
struct look_ahead_positions {
  std::uint32_t plain = 0, chain = 0, tree = 0;

  std::uint32_t at(look_ahead kind) const noexcept {
    return kind == look_ahead::plain ? plain : kind == look_ahead::chain ? chain : tree;
  }
  bool operator==(const look_ahead_positions&) const = default;
};

/// What rounds in flight use of a request's leases, and what the next ones need.
struct memory_use {
  std::uint32_t num_in_flight = 0; ///< rounds
  bool closing = false;            ///< it takes part in no more rounds and will return its blocks soon
  std::uint32_t needed = 0;        ///< positions without which it cannot run
  std::uint32_t written = 0;       ///< positions that rounds in flight may write
  bool scattered = false;          ///< its cells may lie anywhere in the lease, so the lease cannot shrink
  look_ahead_positions target, drafter;

  bool operator==(const memory_use&) const = default;
};

/// The memory of a model's requests: what each holds of the target's pool and of its drafter's, what the
/// pools were asked and answered, and which request gives up its memory for another. Decides who gets blocks
/// and appends the pool commands. The owner, the scheduler, decides when a request takes part in rounds.
///
///   open -> acquire -> (granted) holder -> want, roll_back, ... -> preempted -> acquire -> ...
///     |                                          |
///     +------------------> close <---------------+ ended
///
/// Under memory pressure, in this order: nobody asks for as much as was refused until blocks are returned;
/// draft trees return what chains do not need (`tight`, until a request ends); a drafter runs without memory;
/// the youngest holder is preempted for a request that cannot run. The preemption remains in effect until
/// that request has its blocks or has ended (docs/decisions/0517).
///
/// Invariants (`check_invariants`): `holders` are the requests with a first lease, oldest first; others hold
/// no blocks, and have no pending question except for their first lease; a request has at most one pending
/// question in each pool, and tickets are unique; a request that is being preempted is a holder, and the
/// request that needs its blocks is known.
class memory_ledger {
 public:
  using commands = std::vector<pool_command>;

  explicit memory_ledger(std::uint32_t block_size) : block_size_(block_size) {}

  /// Adds a request that may ask for memory.
  void open(request_id request);
  /// Sets what its rounds use and need now; to be called whenever it changes.
  void tell(request_id request, const memory_use& use) { at(request).use = use; }
  /// A round was reported; `submissions[pool]` was the last program on each pool's stream.
  void note_submissions(request_id request, std::span<const std::uint64_t> submissions);

  /// Asks for the first lease; sets the ticket.
  void acquire(acquire_command question, commands& out);
  /// Asks the target's pool for as much as it may still have, from the positions of trees down to `least`.
  void want(request_id request, look_ahead least, commands& out);
  /// The same in the pool of its drafter. `text_begin`: as in `acquire_for_drafter_command`.
  void want_for_drafter(request_id request, pool_number pool, std::optional<std::uint32_t> text_begin,
                        look_ahead least, commands& out);
  /// The first `num_cells` cells of the drafter's lease are final. Tells the pool if it can share them.
  void note_drafter_cells(request_id request, std::uint32_t num_cells, commands& out);

  /// The request's drafter does not draft for it any more: its lease is returned, and an answer that is due
  /// will be stale. No round in flight may use the lease.
  void return_drafter_lease(request_id request, commands& out);

  enum class answer : std::uint8_t { stale, granted, refused };
  /// Processes an answer of a pool. Blocks granted to a request that has gone are returned.
  answer take(const lease_event& event, commands& out);
  /// Blocks were returned, or a message about it may be lost: everybody may ask again.
  void on_blocks_freed();
  /// A round was reported: a request that still lacks blocks may have another one preempted.
  void forget_ways();
  /// Commands may be lost: pending questions count as not asked, and the pool is told which leases are held.
  void on_pool_restarted(commands& out);

  /// Returns what neither rounds in flight nor the largest look-ahead need.
  void roll_back(request_id request, commands& out);
  /// Preempts a request if this one cannot take part in a round without blocks that the pool has refused.
  /// Returns the request that is preempted.
  std::optional<request_id> make_way_for(request_id request);

  /// True if the request has no round in flight and no pending question, so its memory can be returned.
  bool idle(request_id request) const;
  /// A holder waits again: its blocks are returned, and the request for which it was preempted is told.
  void preempted(request_id request, commands& out);
  /// A holder has ended: its blocks are returned, and nobody is preempted for it any more.
  void ended(request_id request, commands& out);
  /// A request without blocks has ended. If a pending question is granted, the blocks are returned.
  void close(request_id request);

  bool gives_way(request_id request) const { return at(request).gives_way_to.has_value(); }
  bool stands_still(request_id request) const;
  /// True if the pool has refused a new request since blocks were returned, or if a holder waits for blocks,
  /// which a new request would take.
  bool short_of_blocks() const;
  /// True if a new request may ask: nobody waits for blocks, and no holder waits for an answer.
  bool admits() const;
  bool admission_blocked() const noexcept { return admission_blocked_; }
  /// True if the pool refused something since a request last ended: draft trees then use only what chains
  /// need.
  bool tight() const noexcept { return tight_; }
  look_ahead largest_look_ahead() const noexcept { return tight_ ? look_ahead::chain : look_ahead::tree; }
  const std::vector<request_id>& holders() const noexcept { return holders_; }
  const memory_use& use(request_id request) const { return at(request).use; }

  const std::vector<block_id>& blocks(request_id request) const { return at(request).target.blocks; }
  const std::vector<block_id>& drafter_blocks(request_id request) const { return at(request).drafter.blocks; }
  /// Number of the drafter's lease, 0 before there is one. A later lease of the same request has another one.
  std::uint64_t drafter_lease(request_id request) const { return at(request).drafter.number; }
  /// Leading cells of the drafter's lease that are final, and what is to be copied before its first pass;
  /// nothing once a pass in it is known to have been made.
  std::uint32_t num_drafter_cells(request_id request) const { return at(request).drafter.num_cells; }
  const std::vector<device::kv_copy>& drafter_copies(request_id request) const {
    return at(request).drafter.copies;
  }
  std::uint32_t positions(request_id request) const { return positions(at(request).target); }
  std::uint32_t drafter_positions(request_id request) const { return positions(at(request).drafter); }

  std::uint32_t blocks_for(std::uint32_t positions) const {
    return (positions + block_size_ - 1) / block_size_;
  }
  /// Empty if all invariants hold, else the violated one.
  std::string check_invariants() const;
  /// A request's leases and questions, for debugging.
  std::string describe(request_id request) const;

 private:
  struct lease {
    std::vector<block_id> blocks;
    std::uint64_t asked = 0;     ///< ticket of the pending question; 0 = none
    std::uint32_t asked_for = 0; ///< positions of that question
    /// The fewest positions refused since blocks were last returned, 0 if none. Fewer may be requested at
    /// once, as many again when blocks are returned.
    std::uint32_t refused_at = 0;
    std::uint64_t last_use = 0; ///< number, on the pool's stream, of the last program that may touch it
  };

  struct lease_for_drafter : lease {
    std::optional<pool_number> pool;          ///< in which it was requested
    bool shares = false;                      ///< the pool shares cells between requests
    std::uint64_t number = 0;                 ///< ticket of the question that opened it
    std::uint32_t num_cells = 0;              ///< leading cells that are final
    std::vector<device::kv_copy> copies = {}; ///< to be made before its first pass
  };

  struct account {
    lease target;
    lease_for_drafter drafter;
    bool holds = false; ///< it has its first lease
    memory_use use;     ///< of a holder
    /// It takes part in no more rounds and returns its blocks, until this request, which lacks blocks, has
    /// got them or has ended.
    std::optional<request_id> gives_way_to;
    /// A request was preempted for it since it last asked; it is not known yet whether that is enough.
    bool way_made = false;
  };

  struct new_question {
    std::uint64_t ticket = 0;
    std::uint32_t num_positions = 0;
  };

  account& at(request_id request) { return accounts_.at(request); }
  const account& at(request_id request) const { return accounts_.at(request); }
  std::uint32_t positions(const lease& l) const {
    return static_cast<std::uint32_t>(l.blocks.size()) * block_size_;
  }
  std::optional<new_question> next_question(lease& l, const look_ahead_positions& wanted, look_ahead least);
  void take_grant(account& a, lease& l, const lease_event& event, commands& out);
  void take_refusal(account& a, lease& l, commands& out);
  bool tighten(commands& out);
  bool lacks_blocks(const account& a) const;
  bool tree_in_flight() const;
  std::optional<request_id> preempt_youngest_for(request_id needy);
  void call_off_preemptions_for(request_id needy);
  void release(request_id request, account& a, commands& out);

  std::uint32_t block_size_;
  std::map<request_id, account> accounts_;
  std::vector<request_id> holders_; ///< oldest first
  std::uint64_t next_ticket_ = 1;
  bool tight_ = false;
  bool admission_blocked_ = false; ///< the pool refused a first lease
};

} // namespace paceline::scheduling
