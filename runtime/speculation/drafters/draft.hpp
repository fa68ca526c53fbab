#pragma once

#include "runtime/base/clock.hpp"
#include "runtime/base/expected.hpp"
#include "runtime/base/ids.hpp"
#include "runtime/base/philox.hpp"
#include "runtime/speculation/trees/token_tree.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace paceline::speculation {

/// The distribution from which a draft token was actually sampled: at most 64 entries, in descending
/// probability, with sum 1.
struct draft_distribution {
  static constexpr std::size_t max_entries = 64;
  std::vector<token_id> tokens;
  std::vector<float> probs; ///< same length; the draft_probs of the literature
};

/// The distribution over the `max_entries` likeliest tokens of processed scores (sampling::pipeline).
draft_distribution truncated_distribution(std::span<const float> scores);

/// `noise_stream::place` of the draw of the `sibling`-th child of a node `depth` levels below the last
/// committed token. A position that is drafted again in a later round has a smaller depth there, so its noise
/// is new. This is required: a rule may have read draft tokens behind the last one it kept (rule `block`
/// reads all of them), and these must not carry information about the next round's draft.
constexpr std::uint32_t draft_place(std::uint32_t depth, std::uint32_t sibling) noexcept {
  return depth << 8 | sibling;
}

/// Draws a token in proportion to the stored probabilities: argmax of log(prob) + Gumbel noise keyed by token
/// id.
token_id draw(const draft_distribution& from, const noise_stream& noise);

/// The size that a drafter planned before it drew the first token. For drawn tokens, a choice among drafts
/// may use this size only, because the actual end of a chain may depend on the drawn tokens.
struct draft_plan {
  std::uint32_t levels = 0; ///< 0: not reported, and then equal to what was requested
  std::uint32_t nodes = 0;
};

/// A row of the target's pass whose best tokens a drafter wants to see. It is computed but neither verified
/// nor committed (the window of lookahead decoding), and it is not a node of the draft tree.
struct probe {
  token_id token; ///< from the vocabulary's size on: one of the drafters' inputs (`drafter::inputs`)
  std::int32_t parent = token_tree::root; ///< a row of the draft: nodes are numbered first, then probes
  std::uint32_t depth = 0;                ///< 0 below the root
};

/// A drafter's proposal for one request.
struct draft {
  static constexpr std::uint32_t max_rows = 192; ///< nodes and probes of one request in a pass

  std::uint32_t base_length = 0; ///< committed tokens (prompt included) that it continues
  token_tree tree = {};
  /// For each node that is to be verified: the distribution from which its token was drawn, given its earlier
  /// siblings. Empty: all tokens were certain (one-hot).
  std::vector<draft_distribution> probs = {};
  draft_plan plan = {};
  /// The drafter's confidence in each node, 0 to 7, or empty; calibrated by outcomes
  /// (control/acceptance_model.hpp). Under rule `rejection` it must not be used for sampled tokens.
  std::vector<std::uint8_t> signals = {};
  bool catching_up = false; ///< it is empty because the drafter is still reading the text
  std::vector<probe> probes = {};
  /// For a chain, if requested: the other likeliest tokens at each node's position, best first. They are
  /// guesses of what the target chooses instead.
  std::vector<std::vector<token_id>> alternates = {};
  std::optional<time_span> drafted =
      {}; ///< when the drafter was asked and when it answered; set by its caller

  std::uint32_t num_rows() const noexcept { return tree.size() + static_cast<std::uint32_t>(probes.size()); }
  /// Adds a probe under row `parent`; all nodes must have been added before. Returns its row.
  std::int32_t add_probe(token_id token, std::int32_t parent);
  /// Rows from the root's child down to `row`, which is included.
  std::vector<std::int32_t> path_to(std::int32_t row) const;
  /// Keeps the first `count` rows; probes are removed first.
  void truncate(std::uint32_t count);
};

/// The nodes with `keep` set, in their order; the set must be closed under ancestors. Probes are kept if
/// their parents are, and if any node is.
draft part_of(draft whole, const std::vector<bool>& keep);

/// The outcome of a request's last round. A drafter learns from it in the request's next task.
struct round_feedback {
  draft verified;                          ///< as the target verified it; possibly another drafter's
  std::vector<std::int32_t> accepted_path; ///< accepted nodes, root first
  /// At least the drafter's `top_tokens`, more if another drafter needs them; 0: not collected.
  std::uint32_t num_top = 0;
  std::vector<token_id> top_tokens =
      {}; ///< [1 + nodes + probes][num_top], largest raw logit first; see `top_at`

  /// The target's best tokens after `node`: `token_tree::root` is the last token committed before that round;
  /// numbers from the number of nodes on are probes. Empty if not collected; negative if the row had fewer
  /// finite logits.
  std::span<const token_id> top_at(std::int32_t node) const noexcept {
    return std::span(top_tokens).subspan(static_cast<std::size_t>(node + 1) * num_top, num_top);
  }
};

/// Checks that `proposal` can be verified: a valid tree of at most `max_depth` levels (probes: at most
/// `max_probe_depth` levels, if that is more), at most `max_rows` rows, and tokens of the vocabulary; probes
/// may also have the `num_inputs` ids behind it. If it has distributions, there must be one for each node,
/// valid and containing the node's token. For drafts from outside the process.
expected<void> validate_draft(const draft& proposal, std::uint32_t vocab_size, std::uint32_t max_depth,
                              std::uint32_t max_probe_depth = 0, std::uint32_t num_inputs = 0);

} // namespace paceline::speculation
