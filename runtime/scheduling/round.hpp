#pragma once

#include "runtime/base/clock.hpp"
#include "runtime/base/error.hpp"
#include "runtime/base/ids.hpp"
#include "runtime/base/token_event.hpp"
#include "runtime/device/row_batch.hpp"
#include "runtime/scheduling/admitted_request.hpp"
#include "runtime/speculation/drafters/draft.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace paceline::scheduling {

/// What a round shall do for one request.
struct plan_item {
  admitted_request request;
  std::vector<block_id> blocks; ///< lease in the target's pool: block table of the request
  std::uint32_t admission = 0;  ///< to which of the request's admissions they belong, from 1
  std::uint32_t max_rows = 1;   ///< committed tokens whose KV this round may compute; the last one decides
  std::optional<std::uint32_t>
      restart_at;                      ///< KV is valid up to here only (admission, return after preemption)
  std::uint32_t num_cached_tokens = 0; ///< with restart_at: how much of it came from the prefix cache
  std::vector<device::kv_copy> copies; ///< cells to copy before the pass
  drafter_index drafter = plain_decoding;
  std::uint32_t draft_length = 0; ///< upper bound: levels of the draft tree
  std::uint32_t max_nodes =
      0; ///< upper bound: its nodes (of a beam search: of all hypotheses'); a chain has as many as levels
  length_rule lengths = length_rule::fixed; ///< how the drafter may stay below
  /// Drafter that drafts for it on a stream of its own. With "auto" it is one of those chosen among.
  std::optional<drafter_index> worker;
  std::uint32_t worker_length = 0;      ///< upper bound of that draft, at most draft_length
  std::vector<block_id> drafter_blocks; ///< lease in the drafter's own pool
  ahead_mode ahead = ahead_mode::off;   ///< what a worker drafter does before the round's verdict is known
  std::uint32_t num_spare_blocks = 0;   ///< the last of them: for drafts of outcomes, beside the text
  bool drafter_restart = false; ///< that lease is new: what the drafter remembers of its own KV is void
};

/// Composition of one round of one batch group: who takes part, with what memory.
struct round_plan {
  round_id round;
  group_id group;
  std::vector<plan_item> items;
};

/// Drafts that a draft worker made for a round. Written by its program, read after its fence.
struct draft_batch {
  drafter_index drafter;
  std::chrono::nanoseconds duration{}; ///< of the program
  std::uint32_t num_foreseen = 0;      ///< items drafted for in advance
  std::uint32_t num_ready = 0;         ///< of them, those whose outcome came true
  std::uint32_t num_drafted = 0;       ///< items drafted for by the program itself
  bool catching_up = false;            ///< it read more than the last round's tokens: its time tells nothing
  std::vector<speculation::draft> drafts; ///< one a plan item; those of other drafters' items stay empty
  std::vector<std::vector<speculation::draft>>
      beams;                       ///< [plan item][hypothesis]: of beam searches; empty if there are none
  std::optional<error> failure;    ///< the drafter failed: the drafts are empty, the round goes on without
  std::optional<pool_number> pool; ///< the drafter's, if it has one
  std::uint64_t submission = 0;    ///< of its program on its stream
};

/// What "auto" advises for worker drafters in the rounds to come.
struct worker_advice {
  std::optional<drafter_index> drafter;
  std::uint32_t length = 0;
};

/// What a round did for one request: what the scheduler needs to go on.
struct item_result {
  request_id request;
  std::uint32_t num_rows = 0;   ///< rows computed, draft rows included
  std::uint32_t num_draft = 0;  ///< draft tokens verified
  std::uint32_t num_levels = 0; ///< of their tree; of a chain as many
  std::uint32_t num_accepted = 0;
  bool stale_draft = false; ///< a draft was dropped because its base had passed
  drafter_index drafter = plain_decoding;
  std::uint32_t length = 0; ///< committed tokens after the round
  std::uint32_t kv_length = 0;
  finish_reason finish = finish_reason::none;
  std::vector<token_id> committed; ///< by this round
  std::uint32_t num_cells = 0;     ///< of a beam search: cells that its next round needs, drafts aside
  worker_advice advice = {};       ///< of requests with drafter "auto"
};

/// Where a round's time went.
struct round_times {
  std::chrono::nanoseconds draft{};  ///< in-line drafters and the choice among them
  std::chrono::nanoseconds pass{};   ///< the target's pass
  std::chrono::nanoseconds decide{}; ///< sampling, verification, commit
};

/// What a draft worker spent for a round.
struct draft_time {
  drafter_index drafter;
  std::uint32_t num_levels = 0;                                   ///< of its deepest draft, at least 1
  std::chrono::nanoseconds duration{};                            ///< after the verdict
  std::uint32_t num_foreseen = 0, num_ready = 0, num_drafted = 0; ///< as in `draft_batch`
  bool catching_up = false;
};

/// A drafter that could not draft for a round.
struct failed_drafter {
  drafter_index drafter;
  error why{errc::internal, ""};
};

/// Outcome of a round. Written by the verify program, read after its fence.
struct round_result {
  round_id round;
  group_id group;
  std::vector<item_result> items;
  std::vector<token_event> events; ///< in item order; items without news have none
  std::optional<error> failure;    ///< the pass failed: every request of the round fails with it
  bool started = false;            ///< false with a failed fence: nothing ran, the round may be tried again
  bool stood_aside = false;        ///< not started because the round before it had not been
  std::uint32_t num_rows = 0;
  std::chrono::nanoseconds duration{};         ///< of the program
  round_times times;                           ///< its parts
  std::vector<draft_time> drafting;            ///< of the workers that drafted for it
  std::vector<failed_drafter> failed_drafters; ///< the round went on without them
  /// Submission number of the round's program on the stream of each pool (index = `pool_number`; 0 = none):
  /// what a release of its requests waits for. The streams have completed them when this result may be read.
  std::vector<std::uint64_t> submissions;
};

/// The largest draft tree that an item may have now.
struct draft_bounds {
  std::uint32_t length = 0;      ///< levels; 0: no draft
  std::uint32_t nodes = 0;       ///< at least `length`
  std::uint32_t rows = 0;        ///< of nodes and probes together, at least `nodes`
  std::uint32_t probe_depth = 0; ///< levels that probes may have: they are never committed
};

/// Blocks of a drafter's pool, beside those of the text, in which a request's drafts of other outcomes than
/// "everything is accepted" are made: for every place of the draft and the one behind it, `num_guesses`.
std::uint32_t spare_blocks(std::uint32_t draft_length, std::uint32_t num_guesses,
                           std::uint32_t block_size) noexcept;

/// Never beyond what the request may commit, the context, or the leases hold (overflow guard: shrinks to 0,
/// never fails). Call inside a program.
draft_bounds draft_limit(const plan_item& item, std::uint32_t block_size, std::uint32_t context_length);
/// The same once the request has `length` tokens and may commit `remaining` more.
draft_bounds draft_limit(const plan_item& item, std::uint32_t length, std::uint32_t remaining,
                         std::uint32_t block_size, std::uint32_t context_length);
/// What of it the item's worker may draft.
draft_bounds worker_limit(const plan_item& item, draft_bounds limit);

} // namespace paceline::scheduling
