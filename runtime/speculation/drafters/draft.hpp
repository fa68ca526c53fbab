#pragma once

#include "runtime/base/expected.hpp"
#include "runtime/base/ids.hpp"
#include "runtime/base/philox.hpp"
#include "runtime/speculation/trees/token_tree.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace paceline::speculation {

/// The distribution a draft token was really sampled from: at most 64 entries, descending probability, sum 1.
struct draft_distribution {
  static constexpr std::size_t max_entries = 64;
  std::vector<token_id> tokens;
  std::vector<float> probs; ///< same length; draft_probs of the literature
};

/// The truncated distribution of processed scores (sampling::pipeline): the likeliest `max_entries` at most.
draft_distribution truncated_distribution(std::span<const float> scores);

/// `noise_stream::place` of a draw at the `sibling`-th of the children of one node, `depth` levels below the
/// last committed token's. A position that is drafted again in a later round lies less deep there, so its
/// noise is new: what a rule has learnt about draft tokens behind the last one it kept (rule `block` reads
/// them all) must not say anything about the next round's.
constexpr std::uint32_t draft_place(std::uint32_t depth, std::uint32_t sibling) noexcept {
  return depth << 8 | sibling;
}

/// Draws a token in proportion to the stored probabilities: argmax of log(prob) + Gumbel noise keyed by token
/// id.
token_id draw(const draft_distribution& from, const noise_stream& noise);

/// What a drafter set out to draft before it drew the first token. Of drawn tokens the only size that a
/// choice among drafts may look at: where a chain ends may follow from the tokens that were drawn.
struct draft_plan {
  std::uint32_t levels = 0; ///< 0: it does not say; then it is what it was asked for
  std::uint32_t nodes = 0;
};

/// A row of the target's pass whose best tokens a drafter wants to know: computed, not verified, never
/// committed (the window of lookahead decoding). It is no node of the draft's tree.
struct probe {
  token_id token;
  std::int32_t parent = token_tree::root; ///< a row of the draft: nodes count first, then probes
  std::uint32_t depth = 0;                ///< 0 below the root
};

/// What a drafter proposes for one request.
struct draft {
  static constexpr std::uint32_t max_rows = 192; ///< nodes and probes of one request in a pass

  std::uint32_t base_length = 0; ///< committed tokens (prompt included) it continues
  token_tree tree = {};
  /// One a node that is to be verified: what its token was drawn from, given its earlier siblings. Empty: all
  /// were certain (one-hot).
  std::vector<draft_distribution> probs = {};
  draft_plan plan = {};
  /// How sure the drafter is of each node, 0 to 7, or empty: calibrated by what comes
  /// (control/acceptance_model.hpp). Of sampled tokens no reader may use it under rule `rejection`.
  std::vector<std::uint8_t> signals = {};
  std::vector<probe> probes = {};
  /// Of a chain, if they were asked for: at each node's place the likeliest other tokens, best first. Guesses
  /// at what the target will say there instead.
  std::vector<std::vector<token_id>> alternates = {};

  std::uint32_t num_rows() const noexcept { return tree.size() + static_cast<std::uint32_t>(probes.size()); }
  /// Adds a probe under the row `parent`, once the tree is complete. Returns its row.
  std::int32_t add_probe(token_id token, std::int32_t parent);
  /// Rows from below the root down to `row`, itself included.
  std::vector<std::int32_t> path_to(std::int32_t row) const;
  /// Keeps `count` of its rows; probes go first.
  void truncate(std::uint32_t count);
};

/// The nodes with `keep` set, a set closed under ancestors, in their order; with them the probes below
/// what stays, if any node does.
draft part_of(draft whole, const std::vector<bool>& keep);

/// What the last round of a request decided. A drafter learns from it with the request's next task.
struct round_feedback {
  draft verified;                          ///< as the target saw it; maybe another drafter's
  std::vector<std::int32_t> accepted_path; ///< its nodes that were kept, root first
  std::uint32_t num_top = 0; ///< the drafter's `top_tokens` or, for another's sake, more; 0: not asked for
  std::vector<token_id> top_tokens =
      {}; ///< [1 + nodes + probes][num_top], best raw logit first; see `top_at`

  /// The target's best tokens after `node` (`token_tree::root`: after the last committed token of then; from
  /// the number of nodes on: after that probe). Empty if they were not asked for; tokens below 0 where the
  /// row had fewer finite logits.
  std::span<const token_id> top_at(std::int32_t node) const noexcept {
    return std::span(top_tokens).subspan(static_cast<std::size_t>(node + 1) * num_top, num_top);
  }
};

/// Whether `proposal` can be verified: a valid tree of at most `max_depth` levels (its probes: of
/// `max_probe_depth`, if that is more), `max_rows` rows, tokens of the vocabulary, and, if it has
/// distributions, one a node, sane and able to produce the node's token. For drafts that come from elsewhere.
expected<void> validate_draft(const draft& proposal, std::uint32_t vocab_size, std::uint32_t max_depth,
                              std::uint32_t max_probe_depth = 0);

} // namespace paceline::speculation
