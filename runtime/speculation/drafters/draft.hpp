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

/// What a drafter proposes for one request.
struct draft {
  std::uint32_t base_length = 0; ///< committed tokens (prompt included) it continues
  token_tree tree = {};
  /// One a node: what its token was drawn from, given its earlier siblings. Empty: all were certain
  /// (one-hot).
  std::vector<draft_distribution> probs = {};
};

/// Whether `proposal` can be verified: a valid tree of at most `max_depth` levels, tokens of the vocabulary,
/// and, if it has distributions, one a node, sane and able to produce the node's token. For drafts that come
/// from elsewhere.
expected<void> validate_draft(const draft& proposal, std::uint32_t vocab_size, std::uint32_t max_depth);

} // namespace paceline::speculation
