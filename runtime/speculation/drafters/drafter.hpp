#pragma once

#include "runtime/base/error.hpp"
#include "runtime/base/ids.hpp"
#include "runtime/base/request.hpp"
#include "runtime/model/language_model.hpp"
#include "runtime/sampling/pipeline.hpp"
#include "runtime/speculation/drafters/draft.hpp"

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::device {
class ops;
}

namespace paceline::speculation {

/// Where a drafter runs (design, section 3).
enum class placement : std::uint8_t {
  in_line, ///< host code at the start of the verifier's own program ("inline" in configuration and replies)
  in_pass, ///< extra rows or heads of the target's pass
  worker,  ///< own model, own actor, own stream
};

/// What a drafter needs from the runtime. Constant.
struct drafter_traits {
  std::string name; ///< as configured; also the metric label
  placement where = placement::in_line;
  std::vector<layer_index> taps; ///< target layers whose hidden states it reads
  std::uint32_t default_draft_length = 5;
  std::uint32_t max_context = 0; ///< positions its own model can hold; 0 = no limit
  /// The target's best tokens it wants to see of each row of a pass that verified its draft; see
  /// `draft_task::last_round`. Costs a look at every logit of every row, so 0 unless the drafter learns from
  /// it.
  std::uint32_t top_tokens = 0;
  /// Its model is the first layers of the target: it takes over cells that the target has computed
  /// (`draft_task::target_cells`).
  bool reads_target_cells = false;
  /// By signal (`draft::signals`): the share of first draft tokens that were right over the workloads of
  /// docs/auto.md. What `auto` expects until it has seen some. 0: not known.
  std::array<float, 8> first_acceptance = {};
};

/// What the target's pool holds of a request, as a drafter may read it.
struct target_cells {
  const model::kv_storage* kv = nullptr; ///< null: nothing may be read
  std::span<const block_id> blocks;      ///< the request's block table there
  std::uint32_t num_final = 0;           ///< leading cells that are final
};

/// One request as a drafter sees it while drafting. Views are valid during the call.
struct draft_task {
  request_id request;
  std::span<const token_id> tokens;     ///< committed: prompt and output
  const sampling::pipeline* sampling;   ///< the request's pipeline: draws with the target's own noise
  const sampling::token_counts* counts; ///< penalty counts of `tokens`
  std::uint32_t prompt_length = 0;
  /// If not 0: leading tokens that stay. The others are a hypothesis's (a beam search's, or a drafter's that
  /// is drafted for itself), and the next task of the same session may have others in their place.
  std::uint32_t num_settled = 0;
  /// Last tokens that are not committed yet: the draft is made in advance of the verdict that would commit
  /// them.
  std::uint32_t num_foreseen = 0;
  verification_rule rule = verification_rule::coupled;
  /// Upper bound of the tree's depth; the caller has applied the overflow guard.
  std::uint32_t draft_length = 0;
  length_rule lengths = length_rule::fixed; ///< a drafter that knows its entropy minds `entropy`
  /// Upper bound of the tree's nodes, at least draft_length: what lies beyond has no cells and is dropped.
  std::uint32_t max_nodes = 0;
  std::uint32_t max_rows = 0; ///< upper bound of nodes and probes together, at least max_nodes
  /// Upper bound of the probes' depth: positions left in the context. At least draft_length.
  std::uint32_t max_probe_depth = 0;
  /// Lease in the drafter's own pool, covering tokens + max_nodes; empty if it has none. Another lease
  /// than last time needs a new session.
  std::span<const block_id> blocks;
  /// The target's cells of leading `tokens`, for a drafter that reads them. Nobody writes them, or gives
  /// their blocks to another request, before `propose` returns.
  speculation::target_cells target_cells = {};
  /// Of the requested taps, [rows][taps][hidden]: hidden states of the newest tokens that have one. The last
  /// row decided the newest token, which itself has not been through the target yet: it belongs to position
  /// tokens.size() - 2.
  std::span<const float> features;
  /// What the last round that decided tokens of this request verified and kept; null before the first. It
  /// need not have been this drafter's draft; `verified.base_length` says where it began. Handed again if no
  /// round came between.
  const round_feedback* last_round = nullptr;
  std::string_view tenant = {};              ///< what is remembered for one tenant must not reach another
  std::span<const token_id> prediction = {}; ///< the client's own draft of the output
  std::uint32_t num_alternates = 0; ///< `draft::alternates` wanted a node, of a drafter that knows some
  class drafter_session* session = nullptr; ///< what `open` made for this request
  draft result;                             ///< written by `propose`

  /// The tokens that a session may learn from for good.
  std::span<const token_id> settled() const noexcept {
    return num_settled == 0 ? tokens : tokens.first(num_settled);
  }

  /// Whether the rule weighs target_probs against draft_probs: tokens are then to be drawn with noise of
  /// purpose `draft` (at `draft_place`) and `result.probs` filled, or else to be certain.
  bool weighs_probs() const noexcept {
    return rule != verification_rule::coupled && rule != verification_rule::typical && !sampling->greedy();
  }
};

/// A request that is over, as its sessions are told.
struct ended_request {
  std::span<const token_id> tokens; ///< committed: prompt and output
  std::uint32_t prompt_length = 0;
  std::string_view tenant;
};

/// What a drafter remembers of one request between rounds (an n-gram index, the length of its own KV). Dies
/// with the request, so nothing of one request can reach another.
class drafter_session {
 public:
  virtual ~drafter_session() = default;

  /// The request is over; what may be kept of it by tenant is kept now, the tokens of its last round
  /// included. Called last, once, on whatever thread drops the request. Of a beam search `tokens` has the
  /// best hypothesis, and the sessions of hypotheses are not told.
  virtual void end(const ended_request&) noexcept {}

  /// A session that knows what this one knows, over cells with the same contents. Null: there is none, and
  /// the drafter does not draft ahead of a verdict.
  virtual std::unique_ptr<drafter_session> clone() const { return nullptr; }
  /// A clone went on in the same cells: only those of committed tokens are still this session's.
  virtual void forget_draft() {}
  /// Cells in use in the drafter's own pool, from the first on: of committed tokens, and of these and the
  /// draft.
  struct cell_counts {
    std::uint32_t committed = 0;
    std::uint32_t all = 0;
  };
  virtual cell_counts num_cells() const noexcept { return {}; }
};

/// Proposes draft tokens. One object a configured drafter; `propose` is called from one stream at a time.
class drafter {
 public:
  virtual ~drafter() = default;
  virtual const drafter_traits& traits() const noexcept = 0;

  /// Session for a request that starts (or restarts after a worker was lost).
  virtual std::unique_ptr<drafter_session> open(request_id request) = 0;

  /// Fills `result` of every task; an empty tree is a valid answer. Runs inside a program. `kv` is the
  /// storage of the drafter's own pool, none if it has no model. A session may be behind `tokens` by any
  /// amount (a new request, a restart, rounds drafted by another drafter): it catches up itself, at most
  /// `max_catch_up` tokens a call, and returns an empty tree until it has.
  virtual void propose(device::ops& ops, model::kv_storage* kv, std::span<draft_task> tasks) = 0;

  /// Most nodes that a tree of `draft_length` levels has: what the target's lease must have cells for. A
  /// chain's are its levels.
  virtual std::uint32_t max_nodes(std::uint32_t draft_length) const noexcept { return draft_length; }

  /// Most probes that a draft has: rows that the target computes for the drafter beside the tree's.
  virtual std::uint32_t max_probes() const noexcept { return 0; }

  /// Most cells of its own pool, if it has one, that a draft of `draft_length` levels takes behind the
  /// committed text: its lease is to reach so far.
  virtual std::uint32_t own_positions(std::uint32_t draft_length) const noexcept { return draft_length; }

  /// The drafter's own model, if it has one: decides the size of its pool's cells.
  virtual const model::language_model* own_model() const noexcept { return nullptr; }
};

} // namespace paceline::speculation
