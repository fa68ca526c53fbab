#pragma once

#include "runtime/base/clock.hpp"
#include "runtime/base/ids.hpp"
#include "runtime/base/token_event.hpp"
#include "runtime/scheduling/by_length.hpp"
#include "runtime/scheduling/cost_model.hpp"
#include "runtime/scheduling/drafter_rests.hpp"
#include "runtime/scheduling/memory_ledger.hpp"
#include "runtime/scheduling/overlap_choice.hpp"
#include "runtime/scheduling/pool_commands.hpp"
#include "runtime/scheduling/round.hpp"
#include "runtime/scheduling/scheduler_counters.hpp"
#include "runtime/scheduling/state_slot_shares.hpp"
#include "runtime/speculation/control/draft_length.hpp"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

namespace paceline::scheduling {

/// A drafter as the scheduler sees it: its name and memory needs.
struct drafter_slot {
  std::string name;
  std::uint32_t default_draft_length = 0;
  std::optional<pool_number> pool; ///< pool for the cells of its own model, if it has one
  bool worker = false;             ///< drafts on its own stream
  /// Largest numbers of rows (nodes and probes) and of nodes of a draft with the given number of levels. Both
  /// functions are empty if the drafter drafts chains.
  by_length max_rows = {}, max_nodes = {};
  paceline::length_rule length_rule = paceline::length_rule::fixed;
  /// Largest number of cells of its own pool that a draft with the given number of levels needs after the
  /// cells of the text; empty: one cell for each level.
  by_length own_positions = {};
  /// Index of the request's token with which the drafter's text begins, if requests can share cells of its
  /// pool (`speculation::drafter_traits::text_begin`).
  std::optional<std::uint32_t> text_begin = {};
  /// The part of `own_positions` that a draft of any length needs. These cells are never committed.
  std::uint32_t block_positions = 0;
  /// True: its pool has a cell for each token of the text. False: one cell, however long the text is.
  bool caches_text = true;
  /// Longest text that it drafts for, in cells of its pool; 0: any.
  std::uint32_t max_text = 0;
  bool widens_for_beams = false; ///< `speculation::drafter_traits::widens_for_beams`
  bool drafts_in_advance = true; ///< it can draft before the previous verdict is known
};

struct scheduler_options {
  std::uint32_t max_running = 8;
  std::uint32_t max_waiting = 256;
  std::uint32_t block_size = 16;
  std::uint32_t context_length = 4096;
  std::uint32_t num_blocks = 0;        ///< of the target's pool: no request may need more
  std::uint32_t max_prompt_rows = 512; ///< largest number of prompt rows in a round
  /// Whether requests with worker drafters are divided into two alternating groups.
  enum class grouping : std::uint8_t { one, two, measured } groups = grouping::one;
  /// Allowed overlap modes of worker drafters; if there are several, the fastest is chosen by measurement.
  std::vector<ahead_mode> overlap{ahead_mode::off};
  std::uint32_t num_guesses = 1; ///< in mode `outcomes`: outcomes for each position of a draft
  bool prefix_cache = true;
  /// Longest pause in a decoding request's output that prompts of other requests should cause.
  std::chrono::nanoseconds max_gap{std::chrono::milliseconds(200)};
  std::chrono::nanoseconds round_timeout{
      std::chrono::minutes(5)};           ///< if a round takes longer, its device counts as lost
  std::vector<drafter_slot> drafters;     ///< by index, `plain_decoding` first
  std::vector<pass_time> pass_times = {}; ///< of the target, measured at load
  /// Positions from one snapshot of a recurrent state to the next, a multiple of block_size; 0: the target
  /// has no such state.
  std::uint32_t state_interval = 0;
  std::uint32_t num_state_slots = 0; ///< slots of states in the target's pool: no request may need more
};

/// Actions that an input causes.
struct decisions {
  std::vector<round_plan> rounds;
  std::vector<pool_command> pool;
  std::vector<token_event> events; ///< ends decided by the scheduler: refused, cancelled, expired, failed
  std::vector<failed_drafter> failed_drafters; ///< to be recorded as faults
};

/// The life of every request and the composition of every round: a state machine without clock, threads or
/// messages.
///
///   submit -> waiting -> acquiring -> running -> closing -> (gone)
///                ^                       |
///                +------ preempted <-----+
///
/// waiting: in the queue. acquiring: the pool was asked for blocks. running: takes part in rounds. closing:
/// takes part in no new rounds; waits for those in flight, then its blocks are released.
///
/// Invariants (`check_invariants`): a request is in exactly one state; the running and closing ones are the
/// ledger's holders, and the ledger knows what they use; a group has at most `depth` rounds in flight; a
/// request has items in rounds of its own group only; a request's num_in_flight equals its items in rounds in
/// flight.
///
/// While a round is overdue the device counts as lost. All requests end, but those of the round keep their
/// blocks until it is reported, because its program may still run. Until then no round is planned and no
/// request is accepted.
class scheduler_state {
 public:
  /// How long a request without credit keeps a slot for which another request waits.
  static constexpr std::chrono::nanoseconds max_stall = std::chrono::seconds(1);

  explicit scheduler_state(scheduler_options options);

  /// Queues a request, or refuses it with an event. A repeated submission only raises the credit. `credit`:
  /// as `tokens` in `grant`.
  decisions submit(admitted_request request, drafter_index drafter, std::uint64_t credit, time_point now);
  /// Ends a request. If the request is not known yet, its later submission is refused.
  decisions cancel(request_id request, time_point now);
  /// Raises the request's credit. `tokens`: the total, since submission, of output tokens that the request
  /// may commit and of prompt log-probabilities that it may report.
  decisions grant(request_id request, std::uint64_t tokens, time_point now);
  /// Answers of the pool, in order. `blocks_freed`: a request that was refused before may succeed now.
  decisions on_leases(const std::vector<lease_event>& leases, bool blocks_freed, time_point now);
  decisions on_round_done(const round_result& result, time_point now);
  /// Returns whether a client still waits for the request's events.
  using session_lookup = std::function<bool(request_id)>;
  /// Checks deadlines of requests and rounds. Cancels requests without a session: their cancellation was lost
  /// when a scheduler actor crashed. To be called about every 50 ms while `active()`.
  decisions on_tick(time_point now, const session_lookup& has_session);
  /// Of the rounds in flight, a restarted verifier knows only those in `known`. The others never ran and are
  /// planned again.
  decisions on_rounds_lost(const std::vector<round_id>& known, time_point now);
  /// A restarted pool manager may have lost commands: asks again, lists the requests that hold memory, and
  /// repeats the last watermarks.
  decisions on_pool_restarted(time_point now);
  /// A part that the model needs failed for good: every request ends with `why`, and new ones are refused
  /// with it.
  decisions take_out_of_service(error why);
  /// Drafter `drafter` no longer drafts: its worker failed for good.
  decisions on_worker_lost(drafter_index drafter, time_point now);
  /// Refuses new requests from now on.
  void drain() { draining_ = true; }

  bool active() const noexcept { return !requests_.empty() && !out_of_service_; }
  bool device_lost() const;
  std::uint32_t num_running() const;
  std::uint32_t num_waiting() const;
  const scheduler_counters& counters() const noexcept { return counters_; }
  /// Empty if all invariants hold, else a description of the violated one.
  std::string check_invariants() const;
  /// One line for each request and round in flight, for debugging.
  std::string describe() const;

 private:
  enum class phase : std::uint8_t { waiting, acquiring, running, closing };

  struct record {
    admitted_request request;
    phase state = phase::waiting;
    group_id group;
    drafter_index drafter = plain_decoding;
    /// The worker that drafts for it. With "auto": a worker that was advised, kept until it rests or
    /// several results in a row advise another worker.
    std::optional<drafter_index> worker;
    worker_advice advice;           ///< of "auto"
    std::uint32_t num_contrary = 0; ///< last results in a row that advised another worker than `worker`
    std::uint32_t draft_length = 0; ///< upper bound for each round
    speculation::draft_length lengths{length_rule::fixed, 0};
    /// Total units that it may spend: one for each output token and one for each reported log-probability of
    /// its prompt.
    std::uint64_t credit = 0;
    std::uint32_t num_scored = 0; ///< log-probabilities of its prompt in reported or planned rounds
    time_point deadline;
    std::optional<time_point> stalled_since; ///< since when it has run without credit
    /// true if it gave up its place for lack of credit; it comes back when it has credit
    bool gave_up_slot = false;
    std::uint32_t num_admissions = 0; ///< its first one, and one after each preemption
    std::optional<std::uint32_t> restart_at;
    std::uint32_t num_cached = 0;
    std::vector<device::kv_copy> copies;           ///< for its first round
    std::shared_ptr<const kv::state_lease> states; ///< null if the target has no recurrent state
    std::uint32_t num_state_slots = 0; ///< slots in `states`, or asked for if not granted yet; 0: no lease
    std::uint32_t num_row_states = 0;  ///< of these slots, those for the rows of passes
    std::uint32_t known_length = 0;    ///< committed tokens reported so far
    std::uint32_t planned_kv = 0;      ///< context rows planned, until the whole prompt is planned
    bool decoding = false;             ///< the whole prompt is planned: further items decode
    /// Upper bound of the committed length after all rounds in flight: `known_length` and what each may add.
    std::uint32_t upper_length = 0;
    std::uint32_t upper_slot = 0; ///< upper bound of the slots that rounds in flight may write
    std::uint32_t num_in_flight = 0;
    /// Width of a beam search, else 0. Its `upper_length` counts cells: those that its hypotheses need and
    /// those that rounds in flight may add. Its lease does not shrink while it runs, because its cells may
    /// lie anywhere in the lease.
    std::uint32_t beam_width = 0;
    std::uint32_t num_cells = 0; ///< cells that its hypotheses need, as reported so far

    /// How many of `positions` lie beyond what rounds in flight may use.
    std::uint32_t beyond_upper(std::uint32_t positions) const {
      return positions - std::min(positions, upper_length);
    }
  };

  struct round_in_flight {
    group_id group;
    /// One request's part of the round. If the round is lost, data that its item sends to the device only
    /// once is sent again.
    struct part {
      request_id request;
      std::uint32_t num_context = 0;
      /// Upper bound of the tokens it commits; for a beam search of the cells it adds.
      std::uint32_t growth = 0;
      std::uint32_t num_nodes = 0;  ///< upper bound of its draft nodes
      std::uint32_t num_scores = 0; ///< scores of its prompt that it reports for the first time
      bool asks_worker = false;     ///< the request's worker drafts for it, in the request's lease
      std::optional<std::uint32_t> restart;
      std::vector<device::kv_copy> copies;
    };
    std::vector<part> parts;
    /// The mode that `overlap_` had when the round was composed; nullopt if no draft of the round is made in
    /// that mode.
    std::optional<ahead_mode> overlap;
    time_point since; ///< when it was composed, or when the group's previous round was reported
    bool overdue = false;
  };

  void pump(decisions& out, time_point now);
  void finish_here(record& r, finish_reason reason, std::optional<error> failure, decisions& out);
  void retire_if_idle(request_id request, decisions& out);
  void preempt(record& r, decisions& out);
  void forget(request_id request);
  void count_finish(finish_reason reason);
  record* find(request_id request);

  // scheduler_queue.cpp
  void enqueue(request_id request);
  std::uint32_t num_scores(const record& r) const;
  std::uint64_t spent(const record& r) const;
  bool has_credit(const record& r) const;
  bool may_decide(const record& r) const;
  record* next_to_admit();
  void note_stalls(time_point now);
  void give_up_slot(decisions& out, time_point now);

  // scheduler_memory.cpp
  void take_lease(const lease_event& lease, decisions& out);
  void begin_running(record& r, const lease_event& lease);
  void admit(decisions& out);
  void wait_for_memory(record& r);
  slot_share state_slots_wanted(const record& r) const;
  void make_way_for(const record& r, decisions& out);
  memory_use use_of(const record& r) const;
  std::uint32_t max_positions(const record& r) const;
  std::uint32_t positions_ahead(const record& r, look_ahead kind) const;
  std::uint32_t drafter_positions_ahead(const record& r, look_ahead kind) const;
  std::uint32_t levels_after(const record& r, std::uint32_t text, std::uint32_t positions) const;
  std::uint32_t levels_in_lease(const record& r, std::uint32_t positions) const;
  std::uint32_t levels_in_own_context(const record& r) const;
  bool has_outgrown_drafter(const record& r) const;
  std::uint32_t own_positions(const record& r, std::uint32_t draft_length) const;
  std::uint32_t bounded(const record& r, std::uint64_t positions, std::uint32_t nodes,
                        std::uint32_t num_more = 0) const;
  std::uint32_t num_nodes(const record& r, std::uint32_t draft_length) const;
  std::uint32_t num_tree_nodes(const record& r, std::uint32_t draft_length) const;
  std::uint32_t most_nodes_in_states(const record& r) const;
  std::uint32_t spare_blocks_wanted(const record& r) const;
  std::uint32_t num_spare_blocks(const record& r) const;

  // scheduler_rounds.cpp
  void compose(group_id group, decisions& out, time_point now);
  plan_item item_of(const record& r) const;
  std::optional<plan_item> prompt_item(record& r, std::uint32_t& prompt_rows, round_in_flight::part& part);
  std::optional<plan_item> decode_item(record& r, round_in_flight::part& part, decisions& out);
  draft_bounds usable_draft(record& r, decisions& out);
  std::uint32_t next_draft_length(record& r);
  std::uint32_t worker_draft(record& r, std::uint32_t length, decisions& out);
  void want_for_drafter(const record& r, decisions& out);
  void give_drafter_lease(request_id request, plan_item& item);
  const drafter_slot& slot_of(drafter_index drafter) const { return options_.drafters[drafter.value]; }
  std::optional<pool_number> pool_of(const record& r) const {
    return r.worker ? slot_of(*r.worker).pool : std::nullopt;
  }
  bool by_worker(const record& r) const { return slot_of(r.drafter).worker; }
  std::uint32_t depth(group_id group) const;
  std::uint32_t in_flight(group_id group) const;
  std::uint32_t num_in_group(group_id group) const;
  std::uint32_t num_streams() const;
  std::uint32_t prompt_row_budget(group_id group) const;
  group_id choose_group(const record& r) const;
  bool both_groups() const { return num_in_group(group_id{0}) > 0 && num_in_group(group_id{1}) > 0; }
  ahead_mode overlap_of(const record& r) const;
  bool follows_choice_of_overlap(const record& r, const plan_item& item) const;
  bool groups_pay(const record& r) const;

  // scheduler_beams.cpp
  std::optional<plan_item> beam_item(record& r, round_in_flight::part& part, decisions& out);
  std::uint32_t num_beam_nodes(const record& r, look_ahead kind) const;

  // scheduler_losses.cpp
  void note_drafters(const round_result& result, time_point now);
  bool rests(drafter_index drafter) const;
  std::vector<drafter_index> resting_workers() const;
  bool asks_worker(const record& r) const;
  bool can_do_without_worker(const record& r) const;
  void leave_worker(request_id request, decisions& out);

  // scheduler_results.cpp
  void settle_length(record& r);
  void watch_rounds(decisions& out, time_point now);
  void settle_item(record& r, const item_result& item, decisions& out);
  static void tell_completed(const std::vector<std::uint64_t>& last, decisions& out);
  void count_time(const round_result& result, std::uint32_t num_prompt_rows);
  void count_drafted_round(const round_result& result);
  void watch_period(const round_in_flight& f, const round_result& result, std::uint32_t num_prompt_rows,
                    time_point now);
  void count_speculation(const item_result& item);

  scheduler_options options_;
  memory_ledger ledger_;
  std::map<request_id, record> requests_;
  std::deque<request_id> queue_;    ///< waiting and acquiring, in queue order
  std::vector<request_id> running_; ///< running and closing, oldest first
  std::map<round_id, round_in_flight> rounds_in_flight_;
  /// [pool]: last program on its stream that a round reported; 0: none.
  std::vector<std::uint64_t> completed_;
  std::set<request_id> tombstones_; ///< cancelled before they were submitted
  std::set<request_id> ended_;      ///< ended recently; after a restart such a request may be submitted again
  cost_model costs_;
  speculation::pass_cost pass_costs_; ///< from rounds without prompt rows
  /// [drafter]: recent nanoseconds for one level of its drafts; 0 = not measured.
  std::vector<double> draft_step_;
  overlap_choice overlap_;
  std::optional<time_point> last_report_; ///< time of the last reported round; nullopt after a pause
  scheduler_counters counters_;
  std::uint64_t next_round_ = 1;
  std::uint32_t num_groups_ = 1; ///< 2 once a request was put into the second group
  bool draining_ = false;
  std::optional<error> out_of_service_; ///< the reason, once a part of the model failed for good
  drafter_rests rests_;
  /// A request without credit gave up its blocks, and it is not known yet whether these are enough for the
  /// requests that wait.
  bool blocks_given_up_ = false;
  std::set<drafter_index> lost_workers_; ///< drafters whose workers failed for good
};

} // namespace paceline::scheduling
