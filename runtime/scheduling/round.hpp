#pragma once

#include "runtime/base/clock.hpp"
#include "runtime/base/error.hpp"
#include "runtime/base/ids.hpp"
#include "runtime/base/token_event.hpp"
#include "runtime/device/row_batch.hpp"
#include "runtime/kv/lease.hpp"
#include "runtime/scheduling/admitted_request.hpp"
#include "runtime/speculation/drafters/draft.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace paceline::scheduling {

/// The work of a round for one request.
struct plan_item {
  admitted_request request;
  std::vector<block_id> blocks; ///< lease in the target's pool: block table of the request
  /// Number of the admission that owns `blocks`: 1, and 1 more after each preemption.
  std::uint32_t admission = 0;
  /// Largest number of rows for committed tokens. Only the row of the newest token decides a token.
  std::uint32_t max_rows = 1;
  std::optional<std::uint32_t> restart_at; ///< KV is valid only up to here (after admission or preemption)
  /// with restart_at: how many of these positions came from the prefix cache
  std::uint32_t num_cached_tokens = 0;
  std::vector<device::kv_copy> copies; ///< cells to copy before the pass
  /// Slots for recurrent states; null if the model has none. The same for the whole admission.
  std::shared_ptr<const kv::state_lease> states;
  /// Number of these slots that are for the rows of passes; the others are for snapshots.
  std::uint32_t num_row_states = 0;
  drafter_index drafter = plain_decoding;
  std::uint32_t draft_length = 0; ///< upper bound of the draft tree's levels
  std::uint32_t max_nodes = 0; ///< upper bound of its nodes (for a beam search: of all hypotheses together);
                               ///< for a chain the number of levels
  length_rule lengths = length_rule::fixed; ///< how the drafter may shorten its draft
  /// The draft worker that is asked for a draft, if any. With "auto" its draft competes with those of other
  /// drafters.
  std::optional<drafter_index> worker;
  std::uint32_t worker_length = 0;      ///< upper bound of that draft's levels, at most draft_length
  std::vector<block_id> drafter_blocks; ///< lease in the drafter's own pool
  ahead_mode ahead = ahead_mode::off;   ///< how the worker drafts in advance, before a verdict is known
  /// blocks at the end of `drafter_blocks` for drafts made in advance (`spare_blocks`)
  std::uint32_t num_spare_blocks = 0;
  /// Generation number of the lease `drafter_blocks`; 0: none. When it changes, the worker discards its KV of
  /// the request and makes `drafter_copies`, once: in the first round in which this succeeds.
  std::uint64_t drafter_lease = 0;
  std::vector<device::kv_copy> drafter_copies; ///< to be made before the first pass in the lease
  /// Number of leading cells of `drafter_blocks` that are final: found in the prefix cache (copied cells
  /// included) or computed since.
  std::uint32_t num_drafter_cells = 0;
};

/// The composition of one round of one batch group: which requests take part, and their memory.
struct round_plan {
  round_id round;
  group_id group;
  std::vector<plan_item> items;
  /// Workers that are not asked now, because they rest or have failed for good. The advice of "auto" names
  /// other workers.
  std::vector<drafter_index> resting_workers = {};
};

/// The drafts of a draft worker for a round. Written by its draft program, read once that program's fence has
/// passed.
struct draft_batch {
  drafter_index drafter;
  std::chrono::nanoseconds duration{}; ///< of the program
  std::uint32_t num_foreseen = 0;      ///< items with a draft made in advance
  std::uint32_t num_ready = 0;         ///< of these, items with a draft for the outcome that occurred
  std::uint32_t num_drafted = 0;       ///< items drafted by the program itself, after the verdict
  bool catching_up = false; ///< it read more than the last round's tokens, so its time is not representative
  std::vector<speculation::draft> drafts; ///< one for each plan item; empty for items of other drafters
  std::vector<std::vector<speculation::draft>>
      beams;                    ///< [plan item][hypothesis], for beam searches; empty if there are none
  std::optional<error> failure; ///< the drafter failed: the drafts are empty, and the round runs without them
  /// For each plan item: number of leading cells of the drafter's lease that hold committed tokens and so are
  /// final; 0: not reported.
  std::vector<std::uint32_t> num_drafter_cells;
  std::optional<pool_number> pool; ///< the drafter's pool, if it has one
  std::uint64_t submission = 0;    ///< number of its program on its stream
};

/// Advice of "auto" for a request's next rounds: the draft worker to ask (nullopt: none), and the number of
/// levels that it should draft.
struct worker_advice {
  std::optional<drafter_index> drafter;
  std::uint32_t length = 0;
};

/// The result of a round for one request, as the scheduler needs it.
struct item_result {
  request_id request;
  std::uint32_t num_rows = 0;   ///< rows computed, draft rows included
  std::uint32_t num_draft = 0;  ///< draft tokens verified
  std::uint32_t num_levels = 0; ///< levels of their tree
  std::uint32_t num_accepted = 0;
  bool stale_draft = false; ///< a draft was dropped because its base length was no longer current
  drafter_index drafter = plain_decoding;
  std::uint32_t length = 0; ///< committed tokens after the round
  /// Number of positions whose KV is valid in the target's pool after the round.
  std::uint32_t kv_length = 0;
  finish_reason finish = finish_reason::none;
  std::vector<token_id> committed;                ///< by this round
  std::vector<kv::state_snapshot> snapshots = {}; ///< states that this round made final
  std::uint32_t num_cells = 0;         ///< for a beam search: cells that its next round needs without drafts
  std::uint32_t num_drafter_cells = 0; ///< as reported by its worker (`draft_batch`)
  worker_advice advice = {};           ///< of requests with drafter "auto"
};

/// Duration of the parts of a round.
struct round_times {
  std::chrono::nanoseconds draft{};  ///< in-line drafters and the choice among drafts
  std::chrono::nanoseconds pass{};   ///< the target's pass
  std::chrono::nanoseconds decide{}; ///< sampling, verification, commit
};

/// Time that a draft worker spent for a round.
struct draft_time {
  drafter_index drafter;
  std::uint32_t num_levels = 0;                                   ///< levels of its deepest draft, at least 1
  std::chrono::nanoseconds duration{};                            ///< of the program after the verdict
  std::uint32_t num_foreseen = 0, num_ready = 0, num_drafted = 0; ///< as in `draft_batch`
  bool catching_up = false;
};

/// A drafter that failed to draft for a round.
struct failed_drafter {
  drafter_index drafter;
  error why{errc::internal, ""};
};

/// Result of a round. Written by the verify program, read once that program's fence has passed.
struct round_result {
  round_id round;
  group_id group;
  std::vector<item_result> items;
  std::vector<token_event> events; ///< in item order; none for an item that committed nothing and did not end
  std::optional<error> failure;    ///< the pass failed, and so do all requests of the round
  bool started = false;            ///< false: nothing ran, and the round may be run again
  bool stood_aside = false; ///< true if it did not start because the group's previous round had not run
  std::uint32_t num_rows = 0;
  std::chrono::nanoseconds duration{};         ///< of the program
  round_times times;                           ///< the parts of `duration`
  std::vector<draft_time> drafting;            ///< of the workers that drafted for it
  std::vector<failed_drafter> failed_drafters; ///< the round ran without them
  /// Submission number of the round's last program on the stream of each pool (index = `pool_number`; 0 =
  /// none). The blocks of the round's requests are reused only after these programs, which are complete when
  /// this result may be read.
  std::vector<std::uint64_t> submissions;
};

/// Upper bounds of the draft tree of an item.
struct draft_bounds {
  std::uint32_t length = 0;      ///< levels; 0: no draft
  std::uint32_t nodes = 0;       ///< at least `length`
  std::uint32_t rows = 0;        ///< of nodes and probes together, at least `nodes`
  std::uint32_t probe_depth = 0; ///< levels of probes, which are never committed
};

/// Number of blocks of a drafter's pool, in addition to those of the text, for drafts made in advance for
/// outcomes other than "everything is accepted": `num_guesses` outcomes for each draft position and for the
/// bonus position.
std::uint32_t spare_blocks(std::uint32_t draft_length, std::uint32_t num_guesses,
                           std::uint32_t block_size) noexcept;

/// The largest draft that the remaining output, the context and the target's lease allow; length 0 if none
/// fits. Must be called inside a program.
draft_bounds draft_limit(const plan_item& item, std::uint32_t block_size, std::uint32_t context_length);
/// The same for a request with `length` tokens that may commit `remaining` more.
draft_bounds draft_limit(const plan_item& item, std::uint32_t length, std::uint32_t remaining,
                         std::uint32_t block_size, std::uint32_t context_length);
/// `limit` for a draft of the item's worker: the length is lowered to `worker_length` if it is larger.
draft_bounds worker_limit(const plan_item& item, draft_bounds limit);

} // namespace paceline::scheduling
