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
  plain, ///< without drafts: one token in each of the two rounds
  chain, ///< for the levels of the draft
  tree,  ///< for all its nodes
};

/// Length, in positions, that a lease should have for each look-ahead.
struct look_ahead_positions {
  std::uint32_t plain = 0, chain = 0, tree = 0;

  std::uint32_t at(look_ahead kind) const noexcept {
    return kind == look_ahead::plain ? plain : kind == look_ahead::chain ? chain : tree;
  }
  bool operator==(const look_ahead_positions&) const = default;
};

/// What rounds in flight use of a request's leases, and what its next rounds need.
struct memory_use {
  std::uint32_t num_in_flight = 0; ///< rounds
  bool closing = false;            ///< the request joins no more rounds and will return its blocks soon
  std::uint32_t needed = 0;        ///< positions without which the request cannot run
  std::uint32_t written = 0;       ///< positions that rounds in flight may write
  bool scattered = false;          ///< its cells may lie anywhere in the lease, so the lease cannot shrink
  look_ahead_positions target, drafter; ///< lease lengths wanted in the target's pool and in the drafter's

  bool operator==(const memory_use&) const = default;
};

/// The memory of a model's requests: what each request holds in the target's pool and in its drafter's pool,
/// which questions to the pools are pending, and which request gives up its memory for another. Decides which
/// requests get blocks. Functions append pool commands to `out`; the caller must send them in order. The
/// owner, the scheduler, decides when a request takes part in rounds. Not thread-safe.
///
///   open -> acquire -> (granted) holder -> want, roll_back, ... -> preempted -> acquire -> ...
///     |                                          |
///     +------------------> close <---------------+ ended
///
/// Under memory pressure: (1) Until blocks are returned after a refusal, the ledger asks for fewer positions
/// of that lease than were refused, or asks nothing. (2) After the target's pool has refused blocks (not
/// state slots), leases for draft trees shrink to what chains need, until a holder ends (`tight`). (3) A
/// request whose drafter has no blocks is decoded without that drafter's drafts. (4) If a request cannot run,
/// the youngest holder is preempted for it. The preemption is cancelled if the request in need gets its
/// blocks or ends first (docs/decisions/0517).
///
/// A *question* is a command that asks a pool for blocks; its *ticket* identifies the answer. A *holder* is a
/// request that has its first lease in the target's pool.
///
/// Invariants (`check_invariants`): `holders` lists the holders, oldest first. Other requests hold no blocks
/// and may have one pending question, for their first lease. A request has at most one pending question in
/// each pool. Tickets are unique. A request that is being preempted is a holder, and the request that needs
/// its blocks exists.
class memory_ledger {
 public:
  using commands = std::vector<pool_command>;

  explicit memory_ledger(std::uint32_t block_size) : block_size_(block_size) {}

  /// Adds a request that may ask for memory.
  void open(request_id request);
  /// Sets what its rounds use and need now; to be called whenever it changes.
  void tell(request_id request, const memory_use& use) { at(request).use = use; }
  /// A round was reported. submissions[p] is the number of the round's last program on the stream of pool p;
  /// 0 = none.
  void note_submissions(request_id request, std::span<const std::uint64_t> submissions);

  /// Asks for the first lease; sets the ticket.
  void acquire(acquire_command question, commands& out);
  /// Asks the target's pool to lengthen the request's lease for the largest look-ahead that was not refused,
  /// but not for less than `least`. Asks nothing if the lease is long enough for this look-ahead, if all of
  /// them were refused, or if an answer is pending.
  void want(request_id request, look_ahead least, commands& out);
  /// The same in the pool of its drafter. `text_begin`: as in `acquire_for_drafter_command`.
  void want_for_drafter(request_id request, pool_number pool, std::optional<std::uint32_t> text_begin,
                        look_ahead least, commands& out);
  /// Records that the first `num_cells` cells of the drafter's lease are final. If the pool shares cells
  /// between requests, appends a commit command when another block has become full or when the first program
  /// has made the lease's copies.
  void note_drafter_cells(request_id request, std::uint32_t num_cells, commands& out);

  /// Returns the lease in the drafter's pool, because the drafter no longer drafts for this request. A
  /// pending answer will be stale. Precondition: no round in flight uses the lease.
  void return_drafter_lease(request_id request, commands& out);

  /// Result of `take`. `stale`: the ledger no longer waits for this answer; the request's leases are
  /// unchanged.
  enum class answer : std::uint8_t { stale, granted, refused };
  /// Processes an answer of a pool. If the request has ended meanwhile, returns the granted blocks.
  answer take(const lease_event& event, commands& out);
  /// Blocks were returned, or a message that says so may have been lost: every request may ask again for what
  /// it was refused.
  void on_blocks_freed();
  /// To be called when a round was reported: a request that still lacks blocks may then cause a further
  /// preemption.
  void forget_ways();
  /// To be called after a restart of the pool manager, which may have lost commands. Pending questions count
  /// as not asked. Appends a `retain_command` with the leases that are held.
  void on_pool_restarted(commands& out);

  /// Gives back to the target's pool the blocks that neither rounds in flight nor the largest look-ahead
  /// need. Does nothing while an answer is pending, or if the request is closing or `scattered`.
  void roll_back(request_id request, commands& out);
  /// If `request` cannot run because the target's pool refused blocks that it needs, marks the youngest
  /// holder to be preempted for it; this may be `request` itself. Returns the marked holder, or nullopt if
  /// none was marked.
  std::optional<request_id> make_way_for(request_id request);

  /// True if the request has no round in flight and no pending question, so its memory can be returned.
  bool idle(request_id request) const;
  /// A holder was preempted or gave up its place: returns its blocks, so that it has no lease any more. If
  /// another request needed the blocks, that request causes no further preemption until the target's pool has
  /// answered its question, blocks were returned, or a round was reported.
  void preempted(request_id request, commands& out);
  /// A holder has ended: returns its blocks and cancels preemptions for it.
  void ended(request_id request, commands& out);
  /// A request without blocks has ended. If a pending question is granted later, `take` returns the blocks.
  void close(request_id request);

  /// True if the request is being preempted.
  bool gives_way(request_id request) const { return at(request).gives_way_to.has_value(); }
  /// True if its lease in the target's pool is too short to take part in a round (`memory_use::needed`).
  bool stands_still(request_id request) const;
  /// True if no new request may ask for blocks for now (`admission_blocked`), or if a holder was refused the
  /// positions of look-ahead `chain`. A new request would take blocks that this holder waits for.
  bool short_of_blocks() const;
  /// True if a new request may ask: nobody waits for blocks, and no holder waits for an answer.
  bool admits() const;
  bool admission_blocked() const noexcept { return admission_blocked_; }
  /// True from the time when the target's pool refuses blocks until a holder ends. Meanwhile draft trees use
  /// only the positions that chains need.
  bool tight() const noexcept { return tight_; }
  look_ahead largest_look_ahead() const noexcept { return tight_ ? look_ahead::chain : look_ahead::tree; }
  const std::vector<request_id>& holders() const noexcept { return holders_; }
  const memory_use& use(request_id request) const { return at(request).use; }

  const std::vector<block_id>& blocks(request_id request) const { return at(request).target.blocks; }
  const std::vector<block_id>& drafter_blocks(request_id request) const { return at(request).drafter.blocks; }
  /// Number of the drafter's lease, 0 before there is one. A later lease of the same request has a different
  /// number.
  std::uint64_t drafter_lease(request_id request) const { return at(request).drafter.number; }
  /// Number of leading cells of the drafter's lease that are final.
  std::uint32_t num_drafter_cells(request_id request) const { return at(request).drafter.num_cells; }
  /// Cells to copy before the first pass in the drafter's lease. Empty once `note_drafter_cells` has reported
  /// new cells.
  const std::vector<device::kv_copy>& drafter_copies(request_id request) const {
    return at(request).drafter.copies;
  }
  std::uint32_t positions(request_id request) const { return positions(at(request).target); }
  std::uint32_t drafter_positions(request_id request) const { return positions(at(request).drafter); }

  std::uint32_t blocks_for(std::uint32_t positions) const {
    return (positions + block_size_ - 1) / block_size_;
  }
  /// Empty if all invariants hold, else a description of the violated one.
  std::string check_invariants() const;
  /// A request's leases and questions, for debugging.
  std::string describe(request_id request) const;

 private:
  struct lease {
    std::vector<block_id> blocks;
    std::uint64_t asked = 0;     ///< ticket of the pending question; 0 = none
    std::uint32_t asked_for = 0; ///< positions of that question
    /// The fewest positions refused since blocks were last returned, 0 if none. Fewer positions may be
    /// requested immediately; this many, or more, only after blocks were returned.
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
    bool holds = false; ///< it is a holder: it has its first lease
    memory_use use;     ///< of a holder
    /// Set if the request is being preempted: the request that needs its blocks. The preempted request joins
    /// no new round and returns its blocks. The preemption is cancelled if the request in need gets its
    /// blocks or ends first.
    std::optional<request_id> gives_way_to;
    /// Another request was preempted for this one, and the target's pool has not answered since. No further
    /// request is preempted meanwhile.
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
  void take_refusal(account& a, lease& l, bool lacks_states, commands& out);
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
  bool admission_blocked_ = false; ///< no first lease may be requested: one was refused, or a request was
                                   ///< preempted while a holder still lacked blocks
};

} // namespace paceline::scheduling
