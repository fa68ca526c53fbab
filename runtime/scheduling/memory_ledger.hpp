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

/// How far ahead a lease shall reach: for this round and the next.
enum class look_ahead : std::uint8_t {
  plain, ///< without drafts; below it a request stands still
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

/// What rounds in flight use of a request's leases, and what the next ones want.
struct memory_use {
  std::uint32_t num_in_flight = 0; ///< rounds
  bool closing = false;            ///< it takes part in no more rounds: its blocks come back soon
  std::uint32_t needed = 0;        ///< positions without which it stands still
  std::uint32_t written = 0;       ///< positions that rounds in flight may write
  bool scattered = false;          ///< cells in use lie anywhere in the lease: it does not shrink
  look_ahead_positions target, drafter;

  bool operator==(const memory_use&) const = default;
};

/// The memory of a model's requests: what each holds of the target's pool and of its drafter's, what the
/// pools were asked and answered, and who gives way to whom. Decides in favour of whom blocks are given back,
/// appends the commands that say so, and leaves it to its owner, the scheduler, when a request takes part in
/// rounds.
///
///   open -> acquire -> (granted) holder -> want, roll_back, ... -> preempted -> acquire -> ...
///     |                                          |
///     +------------------> close <---------------+ ended
///
/// Under pressure, in this order: nobody asks for more than was refused until blocks come back; draft trees
/// give back what chains do not need (`tight`, until a request ends); a drafter goes without memory; the
/// youngest holder gives way to one that stands still. Who gives way goes on doing so until the one in need
/// has its blocks or has ended (docs/decisions/0517).
///
/// Invariants (`check_invariants`): `holders` are the requests with a first lease, oldest first; others hold
/// and gave up everything, and have no question under way but for their first lease; a request has at most
/// one question under way in each pool, and no two questions have one ticket; who gives way is a holder, and
/// the one in need is known.
class memory_ledger {
 public:
  using commands = std::vector<pool_command>;

  explicit memory_ledger(std::uint32_t block_size) : block_size_(block_size) {}

  /// A request that may ask for memory.
  void open(request_id request);
  /// What its rounds use and want now; told again whenever it changes.
  void tell(request_id request, const memory_use& use) { at(request).use = use; }
  /// A round was reported in which `submissions[pool]` was the last program on each pool's stream.
  void note_submissions(request_id request, std::span<const std::uint64_t> submissions);

  /// Asks for the first lease; sets the ticket.
  void acquire(acquire_command question, commands& out);
  /// Asks for as much as the target's pool may still have, from what trees want down to `least`.
  void want(request_id request, look_ahead least, commands& out);
  /// The same in the pool of its drafter.
  void want_for_drafter(request_id request, pool_number pool, look_ahead least, commands& out);

  enum class answer : std::uint8_t { stale, granted, refused };
  /// An answer of a pool. Whatever a request that is gone was granted goes back.
  answer take(const lease_event& event, commands& out);
  /// Blocks came back, or the news of it may be lost: everybody may ask again.
  void on_blocks_freed();
  /// A round was reported: whoever still lacks blocks may have somebody else give way.
  void forget_ways();
  /// Commands may have been lost: questions count as not asked, and the pool is told who holds memory.
  void on_pool_restarted(commands& out);

  /// Gives back what neither rounds in flight nor the largest look-ahead need.
  void roll_back(request_id request, commands& out);
  /// Preempts somebody if the request can take part in no round before it gets blocks that the pool has
  /// refused. Returns who gives way from now on.
  std::optional<request_id> make_way_for(request_id request);

  /// No round in flight and no question under way: the request's memory can be given back.
  bool idle(request_id request) const;
  /// A holder waits again: it gives its blocks back, and whoever it gave way to knows.
  void preempted(request_id request, commands& out);
  /// A holder is over: it gives its blocks back, and nobody gives way to it any more.
  void ended(request_id request, commands& out);
  /// A request that holds nothing is over. The answer to its question gives its blocks back.
  void close(request_id request);

  bool gives_way(request_id request) const { return at(request).gives_way_to.has_value(); }
  bool stands_still(request_id request) const;
  /// The pool has refused a newcomer since blocks came back, or a holder waits for blocks, which a newcomer
  /// would take.
  bool short_of_blocks() const;
  /// Whether a newcomer may ask: nobody waits for blocks, and no holder for an answer.
  bool admits() const;
  bool admission_blocked() const noexcept { return admission_blocked_; }
  /// The pool refused something since a request ended last: draft trees do without what a chain does not
  /// need.
  bool tight() const noexcept { return tight_; }
  look_ahead largest_look_ahead() const noexcept { return tight_ ? look_ahead::chain : look_ahead::tree; }
  const std::vector<request_id>& holders() const noexcept { return holders_; }
  const memory_use& use(request_id request) const { return at(request).use; }

  const std::vector<block_id>& blocks(request_id request) const { return at(request).target.blocks; }
  const std::vector<block_id>& drafter_blocks(request_id request) const { return at(request).drafter.blocks; }
  std::uint32_t positions(request_id request) const { return positions(at(request).target); }
  std::uint32_t drafter_positions(request_id request) const { return positions(at(request).drafter); }
  /// Whether the drafter's lease is new since this was asked last: nothing has been computed in it.
  bool take_drafter_news(request_id request);
  /// The round that was told so has not run.
  void renew_drafter_news(request_id request);

  std::uint32_t blocks_for(std::uint32_t positions) const {
    return (positions + block_size_ - 1) / block_size_;
  }
  /// Empty if all is well, else what is broken.
  std::string check_invariants() const;
  /// A request's leases and questions, for a person.
  std::string describe(request_id request) const;

 private:
  struct lease {
    std::vector<block_id> blocks;
    std::uint64_t asked = 0;     ///< ticket of the question under way; 0 = none
    std::uint32_t asked_for = 0; ///< positions of that question
    /// The fewest positions refused since blocks came back last, 0 if none: fewer may be asked for at once,
    /// as many when blocks come back.
    std::uint32_t refused_at = 0;
    std::uint64_t last_use = 0; ///< number, on the pool's stream, of the last program that may touch it
  };

  struct account {
    lease target, drafter;
    std::optional<pool_number> drafter_pool; ///< where the drafter's memory was asked for
    bool drafter_news = false;               ///< nothing has been computed in the drafter's lease yet
    bool holds = false;                      ///< it has its first lease
    memory_use use;                          ///< of a holder
    /// Takes part in no more rounds and gives its blocks back, until this request, which lacks some, has got
    /// them or has ended.
    std::optional<request_id> gives_way_to;
    /// Somebody has given way to it since it asked last: whether that suffices is not known yet.
    bool way_made = false;
  };

  account& at(request_id request) { return accounts_.at(request); }
  const account& at(request_id request) const { return accounts_.at(request); }
  std::uint32_t positions(const lease& l) const {
    return static_cast<std::uint32_t>(l.blocks.size()) * block_size_;
  }
  void ask_for_more(request_id request, lease& l, pool_number pool, const look_ahead_positions& wanted,
                    look_ahead least, commands& out);
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
