#pragma once

#include "runtime/base/clock.hpp"
#include "runtime/base/expected.hpp"
#include "runtime/base/ids.hpp"
#include "runtime/base/philox.hpp"
#include "runtime/speculation/trees/token_tree.hpp"

#include <algorithm>
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
  std::vector<float> probs; ///< as long as `tokens`; vLLM's draft_probs, q(x) in Leviathan et al. 2023
};

/// The distribution of processed scores (sampling::pipeline), restricted to the `max_entries` likeliest
/// tokens and rescaled to sum 1.
draft_distribution truncated_distribution(std::span<const float> scores);

/// The `noise_stream::place` for drawing a node. `depth` is the drawn node's depth in the tree (0 for
/// children of the root), below 2^16. `sibling` is its number among independently drawn siblings, below 256;
/// siblings drawn without replacement share one draw, with `sibling` 0. If a later round drafts the same
/// position again, the depth is smaller, so the noise is new. The noise must be new: a rule may have read
/// draft tokens after the last accepted one (rule `block` reads all of them), and the next draft must be
/// independent of those tokens.
constexpr std::uint32_t draft_place(std::uint32_t depth, std::uint32_t sibling) noexcept {
  return depth << 8 | sibling;
}

/// Draws a token in proportion to the stored probabilities: argmax of log(prob) + Gumbel noise keyed by token
/// id.
token_id draw(const draft_distribution& from, const noise_stream& noise);

/// The size that a drafter planned before it drew the first token. If tokens were drawn, code that chooses
/// among drafts must use only this planned size. The actual size may depend on the drawn tokens, and a choice
/// that depends on them changes the output distribution (docs/decisions/0575).
struct draft_plan {
  std::uint32_t levels = 0; ///< 0: not reported; drafter `auto` then assumes the requested levels and nodes
  std::uint32_t nodes = 0;

  /// The number of nodes of each level. The last levels may have fewer.
  std::uint32_t width() const noexcept {
    return levels == 0 ? 1 : std::max(1U, (nodes + levels - 1) / levels);
  }
};

/// A row that a drafter adds to the target's pass in order to read the target's likeliest next tokens there.
/// It is computed but neither verified nor committed, and is not a node of the draft tree. Example: the
/// window of lookahead decoding (Fu et al. 2024, section 3.1).
struct probe {
  token_id token; ///< an id of the vocabulary; vocab_size + j selects trained input vector j of the model's
                  ///< drafters (`drafter::inputs`)
  std::int32_t parent = token_tree::root; ///< a row of the draft (nodes come first, then probes), or the root
  std::uint32_t depth = 0;                ///< 0 for a child of the root
};

/// A drafter's proposal for one request.
struct draft {
  static constexpr std::uint32_t max_rows = 192; ///< nodes and probes of one request in a pass

  std::uint32_t base_length = 0; ///< number of committed tokens (prompt included) that the draft continues
  token_tree tree = {};
  /// One entry for each node, in node order: the distribution from which its token was drawn, given its
  /// earlier siblings. Empty if no token was drawn: each was chosen deterministically, and its distribution
  /// is one-hot.
  std::vector<draft_distribution> probs = {};
  draft_plan plan = {};
  /// The drafter's confidence in each node, 0 to 7, or empty; calibrated by outcomes
  /// (control/acceptance_model.hpp). Signals of drawn tokens (`probs` is not empty) must not influence which
  /// draft is chosen or how much of it is kept.
  std::vector<std::uint8_t> signals = {};
  /// The draft is empty because the drafter has not yet processed the whole committed text.
  bool catching_up = false;
  std::vector<probe> probes = {};
  /// [node][up to draft_task::num_alternates], for chains only: the likeliest tokens at each node's position
  /// except the node's own, best first. They are guesses of the token that the target chooses if it rejects
  /// the node. Empty if not requested.
  std::vector<std::vector<token_id>> alternates = {};
  /// When the drafter was asked and when it answered; set by its caller.
  std::optional<time_span> drafted = {};

  std::uint32_t num_rows() const noexcept { return tree.size() + static_cast<std::uint32_t>(probes.size()); }
  /// Adds a probe under row `parent`; all nodes must have been added before. Returns its row.
  std::int32_t add_probe(token_id token, std::int32_t parent);
  /// Rows from the root's child down to `row`, which is included.
  std::vector<std::int32_t> path_to(std::int32_t row) const;
  /// Keeps the first `count` rows; probes are removed first.
  void truncate(std::uint32_t count);
};

/// The part of `whole` that consists of the nodes i with keep[i], in their order; the set must be closed
/// under ancestors. A probe is kept if its parent is kept or is the root. Exception: if no node is kept, no
/// probe is kept either, unless `with_probes_alone` is true. The result has no plan, no alternates and no
/// catching_up flag.
draft part_of(draft whole, const std::vector<bool>& keep, bool with_probes_alone = false);

/// The outcome of a request's last round. A drafter learns from it in the request's next task.
struct round_feedback {
  draft verified;                          ///< the draft that was verified; possibly another drafter's
  std::vector<std::int32_t> accepted_path; ///< accepted nodes, from the root's child down
  /// Number of top tokens stored for each row; 0 = not collected. At least `drafter_traits::top_tokens` of
  /// the drafter; more if another drafter needs more.
  std::uint32_t num_top = 0;
  /// [1 + nodes + probes][num_top], largest raw logit first; see `top_at`.
  std::vector<token_id> top_tokens = {};

  /// The target's `num_top` best tokens after row `node`. `token_tree::root` is the last token committed
  /// before that round. Rows 0 to tree.size() - 1 are nodes, later rows are probes. The span is empty if
  /// tokens were not collected. Its last ids are negative if the row had fewer finite logits.
  std::span<const token_id> top_at(std::int32_t node) const noexcept {
    return std::span(top_tokens).subspan(static_cast<std::size_t>(node + 1) * num_top, num_top);
  }
};

/// Checks that `proposal`, made outside the process, can be verified. The tree is valid and has at most
/// `max_depth` levels. Probes have at most max(max_depth, max_probe_depth) levels. There are at most
/// `max_rows` rows. Token ids of nodes are below `vocab_size`, and token ids of probes below vocab_size +
/// num_inputs. If the draft has distributions, there is one for each node, valid and with a positive
/// probability of the node's token. Error: errc::invalid_argument, with the node or row and the rule that it
/// breaks.
expected<void> validate_draft(const draft& proposal, std::uint32_t vocab_size, std::uint32_t max_depth,
                              std::uint32_t max_probe_depth = 0, std::uint32_t num_inputs = 0);

} // namespace paceline::speculation
