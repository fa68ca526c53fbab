#pragma once

#include "runtime/base/error.hpp"
#include "runtime/base/ids.hpp"
#include "runtime/base/request.hpp"
#include "runtime/model/heads/lookahead_inputs.hpp"
#include "runtime/model/language_model.hpp"
#include "runtime/sampling/pipeline.hpp"
#include "runtime/speculation/drafters/draft.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::device {
class ops;
}

namespace paceline::speculation {

/// Where a drafter runs.
enum class placement : std::uint8_t {
  in_line, ///< host code at the start of the verify program
  in_pass, ///< like in_line, and it adds rows (probes) to the target's pass
  worker,  ///< its own model, actor and stream
};

/// What a drafter needs from the runtime. Immutable.
struct drafter_traits {
  std::string name; ///< as configured; also the metric label
  placement where = placement::in_line;
  std::vector<layer_index> taps; ///< target layers whose hidden states it reads (`target_cells::features`)
  std::uint32_t default_draft_length = 5;
  std::uint32_t max_context = 0; ///< positions that its own model can hold; 0 = no limit
  /// Longest text, in cells of its own pool, for which it drafts. 0: no limit (its pool has at most one cell
  /// for a text, or it drops the beginning of a long text).
  std::uint32_t max_text = 0;
  /// True: its own pool has a cell for each token of the text. False: it has one cell, for the newest token,
  /// however long the text is.
  bool caches_text = true;
  /// Cells of its own pool, after those of the text, that a draft of any length needs. `own_positions`
  /// includes them.
  std::uint32_t block_positions = 0;
  /// Number of the target's best tokens that the drafter reads for each row of a verified draft
  /// (`draft_task::last_round`). Each row then needs a scan over all logits, so it is 0 unless the drafter
  /// learns from these tokens.
  std::uint32_t top_tokens = 0;
  /// Its model consists of the target's first layers, so it copies cells that the target has computed
  /// (`draft_task::target_cells`).
  bool reads_target_cells = false;
  /// It drafts chains, except in a beam search: there it drafts a tree after each hypothesis
  /// (`tree_shape::widened`). `max_nodes` and `own_positions` do not count these trees.
  bool widens_for_beams = false;
  /// Cell i of its own pool depends only on the request's tokens 0 to `text_begin` + i, so requests with a
  /// common prefix can share cells. nullopt: they cannot share cells.
  std::optional<std::uint32_t> text_begin = {};
  /// Prior of drafter `auto`, by signal (`draft::signals`): the probability that the first token of a draft
  /// with this signal is accepted, used until the running engine has counts of its own. The priors of `ngram`
  /// and `suffix` were counted offline (docs/auto.md); the prior of `forced` is an estimate. 0: no prior.
  std::array<float, 8> first_acceptance = {};

  /// True if its tasks have the target's cells.
  bool reads_target() const noexcept { return reads_target_cells || !taps.empty(); }
  /// True if it reads nothing of a verdict except the tokens, so that it could draft before the verdict is
  /// known. It then drafts in advance if it is a worker and its sessions can be cloned.
  bool drafts_in_advance() const noexcept { return taps.empty() && top_tokens == 0; }
};

/// The cells of a request in the target's pool that a drafter may read.
struct target_cells {
  const model::kv_storage* kv = nullptr; ///< null: nothing may be read
  std::span<const block_id> blocks;      ///< the request's block table in the target's pool
  std::uint32_t num_final = 0;           ///< number of leading final cells; cell i is in slot i
  /// For a hypothesis of a beam search: the slots of further final cells, of the tokens from `num_final` on.
  std::vector<kv_slot> scattered = {};

  /// Leading tokens whose cells are final.
  std::uint32_t num_computed() const noexcept {
    return num_final + static_cast<std::uint32_t>(scattered.size());
  }
  /// Hidden states beside the cells; null if the target's pool keeps none, or nothing may be read.
  const model::feature_cells* features() const noexcept { return kv == nullptr ? nullptr : kv->features(); }
  /// Index of the cell of `position` in the features. The newest token has no final cell, because the target
  /// has not computed its row yet.
  std::uint32_t cell_at(std::uint32_t position) const noexcept {
    const kv_slot slot = position < num_final ? kv_slot{position} : scattered[position - num_final];
    return static_cast<std::uint32_t>(device::cell_of({blocks}, slot, kv->block_size()));
  }
};

/// True if the rule compares target_probs with draft_probs for a request that samples.
constexpr bool weighs_probs(verification_rule rule, bool is_greedy) noexcept {
  return rule != verification_rule::coupled && rule != verification_rule::typical && !is_greedy;
}

/// One request, as a drafter sees it while drafting. Views are valid during the call.
struct draft_task {
  request_id request;
  /// The text to continue: the committed tokens (prompt and output), then `num_foreseen` tokens that are not
  /// committed yet. For a hypothesis of a beam search: the prompt and the hypothesis.
  std::span<const token_id> tokens;
  /// The request's pipeline. It samples with the random numbers that the target uses at the same position.
  const sampling::pipeline* sampling;
  const sampling::token_counts* counts; ///< penalty counts of `tokens`
  std::uint32_t prompt_length = 0;
  /// Cursor of the request's constraint; null: no constraint. Drafting tokens that the constraint forbids is
  /// useless: the runtime cuts a draft at the first of them. A drafter that draws its tokens at random must
  /// set the logits of forbidden tokens to minus infinity before it draws.
  constraint_cursor* constraint = nullptr;
  /// If not 0: number of leading tokens that will not change. The others are a hypothesis of a beam search,
  /// or draft tokens of a cascade's model, which asks an inner drafter to continue them. The next task of the
  /// same session may have other tokens there.
  std::uint32_t num_settled = 0;
  /// For a hypothesis of a beam search: the search's width; else 0.
  std::uint32_t beam_width = 0;
  /// For a draft made in advance: number of tokens at the end of `tokens` that are not committed yet; else 0.
  std::uint32_t num_foreseen = 0;
  verification_rule rule = verification_rule::coupled;
  /// Upper bound of the tree's depth, already limited by the tokens that the request may still commit and by
  /// its leases.
  std::uint32_t draft_length = 0;
  /// The request's length rule. The drafter itself applies rule `entropy`, if it knows the entropy of its
  /// distributions. The scheduler has applied the other rules to `draft_length`.
  length_rule lengths = length_rule::fixed;
  /// Upper bound of the tree's nodes, at least draft_length. Further nodes would have no cells and are
  /// dropped.
  std::uint32_t max_nodes = 0;
  std::uint32_t max_rows = 0; ///< upper bound of nodes and probes together, at least max_nodes
  /// Upper bound of the probes' depth: the positions left in the context. At least draft_length.
  std::uint32_t max_probe_depth = 0;
  /// Block table in the drafter's own pool, for the text (`drafter_traits::caches_text`) and max_nodes
  /// positions; empty if the drafter has no pool. If the cells that a session has used do not have the same
  /// contents as in its previous table, the session must be replaced by a new one.
  std::span<const block_id> blocks;
  /// Number of leading cells of `blocks` that were computed for this text before the session was opened. The
  /// drafter need not compute them.
  std::uint32_t num_drafter_cells = 0;
  /// The target's cells of the first tokens, for a drafter that reads the cells or the features beside them.
  /// Until `propose` returns, these cells do not change and their blocks stay leased.
  speculation::target_cells target_cells = {};
  /// What was verified and kept in the last round that decided tokens of this request. Null before the first
  /// such round, in a draft made in advance, and for hypotheses of a beam search. The draft may be another
  /// drafter's; it began at `verified.base_length`. If there was no such round since the last task, the same
  /// value is passed again.
  const round_feedback* last_round = nullptr;
  std::string_view tenant = {}; ///< text remembered for one tenant must not be proposed to another one
  /// The output as the client expects it (OpenAI's Predicted Outputs).
  std::span<const token_id> prediction = {};
  /// Number of `draft::alternates` wanted for each node, from drafters that have them.
  std::uint32_t num_alternates = 0;
  class drafter_session* session = nullptr; ///< the session that `open` made for this request
  draft result;                             ///< written by `propose`

  /// The tokens from which a session may learn, because its later tasks have them, too.
  std::span<const token_id> settled() const noexcept {
    return num_settled == 0 ? tokens : tokens.first(num_settled);
  }

  /// Output tokens, in the order of `tokens`.
  std::span<const token_id> output() const noexcept {
    return tokens.subspan(std::min<std::size_t>(prompt_length, tokens.size()));
  }

  /// True if the rule compares target_probs with draft_probs. A drafter must then either draw tokens with
  /// the random numbers of `draft_place`, which nothing else uses, and fill `result.probs`, or choose tokens
  /// without randomness.
  bool weighs_probs() const noexcept { return speculation::weighs_probs(rule, sampling->greedy()); }
};

/// A request that has ended, as its sessions see it.
struct ended_request {
  std::span<const token_id> tokens; ///< committed tokens: prompt and output
  std::uint32_t prompt_length = 0;
  std::string_view tenant;
};

/// What a drafter remembers of one request between rounds (an n-gram index, the length of its own KV). It is
/// destroyed with the request at the latest. Its data reach other requests only through `end`, and only
/// requests of the same tenant.
class drafter_session {
 public:
  virtual ~drafter_session() = default;

  /// The request has ended: the session may store data for the request's tenant, the tokens of the last round
  /// included. This is the last call, and it may be on any thread. A session that is dropped while its
  /// request goes on (the drafter failed, or a clone replaced it) does not get this call. For a beam search
  /// `tokens` is the best hypothesis, and the sessions of hypotheses do not get this call.
  virtual void end(const ended_request&) noexcept {}

  /// A copy of this session, over cells with the same contents. Null if the drafter does not support copies;
  /// the drafter then never drafts before the verdict.
  virtual std::unique_ptr<drafter_session> clone() const { return nullptr; }
  /// Forgets the draft: only the cells of committed tokens still belong to this session. Called, for example,
  /// if a clone went on drafting in the same cells.
  virtual void forget_draft() {}
  /// Number of cells used in the drafter's own pool: by committed tokens, and by committed tokens and the
  /// draft together.
  struct cell_counts {
    std::uint32_t committed = 0;
    std::uint32_t all = 0;
  };
  virtual cell_counts num_cells() const noexcept { return {}; }
};

/// Proposes draft tokens. One object for each configured drafter; `propose` is called from one stream at a
/// time.
class drafter {
 public:
  virtual ~drafter() = default;
  virtual const drafter_traits& traits() const noexcept = 0;

  /// A session that has seen no text yet. Called when a request, or a hypothesis of a beam search, is drafted
  /// for the first time, and again after its session was dropped: the drafter failed, or the request has a
  /// new lease in the drafter's pool.
  virtual std::unique_ptr<drafter_session> open(request_id request) = 0;

  /// Fills `result` of every task; an empty tree is a valid answer. Runs inside a program. `kv` is the
  /// storage of the drafter's own pool, null if it has none. A session may lag behind `tokens` by any amount
  /// (a new request, a restart, rounds drafted by another drafter). Each drafter limits the number of tokens
  /// that it processes in one call to catch up. A drafter that cannot draft before the session has caught up
  /// leaves the tree empty and sets `draft::catching_up`. Cells copied from the target
  /// (`draft_task::target_cells`) have a limit of their own.
  virtual void propose(device::ops& ops, model::kv_storage* kv, std::span<draft_task> tasks) = 0;

  /// Largest number of nodes in a tree of `draft_length` levels, for which the target's lease must have
  /// cells. For a chain it is the number of levels.
  virtual std::uint32_t max_nodes(std::uint32_t draft_length) const noexcept { return draft_length; }

  /// Largest number of probes in a draft: rows that the target computes for the drafter in addition to the
  /// tree.
  virtual std::uint32_t max_probes() const noexcept { return 0; }

  /// Largest number of cells of its own pool that a draft of `draft_length` levels needs after the cells of
  /// the committed text. Leases include them.
  virtual std::uint32_t own_positions(std::uint32_t draft_length) const noexcept { return draft_length; }

  /// Trained input vectors of its probes; null: none. Probe token `drafter_parts::first_input` + j selects
  /// vector j.
  virtual const model::lookahead_inputs* inputs() const noexcept { return nullptr; }

  /// The network whose keys and values its own pool holds, which determines the size of a cell; null if it
  /// has no pool.
  virtual const model::kv_model* own_model() const noexcept { return nullptr; }
};

} // namespace paceline::speculation
