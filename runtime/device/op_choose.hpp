#pragma once

#include "runtime/base/ids.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>

namespace paceline::device {

/// Largest top-k that a device supports. Up to this top-k, host and devices compute both sums of top-p (total
/// and running sum) one weight after another, in order of falling score, so the sums have the same bits.
inline constexpr std::uint32_t max_top_k = 128;

/// A token whose logit is changed by penalties.
struct penalised_token {
  token_id token;
  std::uint32_t num_output = 0; ///< occurrences in the committed output; 0: it occurs in the prompt only
};

/// A request for which tokens are chosen: its draft and its sampling settings. The draft is a tree whose root
/// is the last committed token. The request's rows are consecutive: first the row of the root, then the rows
/// of the nodes in their order.
struct token_choice {
  std::uint32_t first_row = 0;            ///< row of the root
  std::span<const token_id> draft_tokens; ///< for each node its token; at most max_draft_nodes
  std::span<const std::int32_t> parents;  ///< for each node an earlier node, or -1 for the root
  token_position position;                ///< position of the token that the root's row chooses

  float temperature = 1;   ///< 0: the largest logit
  std::uint32_t top_k = 0; ///< only the top_k likeliest tokens are considered, at most max_top_k; 0: all
  /// Of the top_k tokens only the likeliest remain: the smallest number that has at least this share of their
  /// total weight. 1: all; must be 1 if top_k is 0.
  float top_p = 1;
  float min_score = -std::numeric_limits<float>::infinity(); ///< tokens with a lower score are removed
  std::uint64_t seed = 0;
  /// Which of the request's `n` choices this is. The noise depends on this index and on the seed.
  std::uint32_t choice_index = 0;

  std::span<const std::pair<token_id, float>> biases; ///< at most one entry for each token
  std::span<const penalised_token> counts; ///< at most one entry for each token; not read without penalties
  float repetition_penalty = 1;
  float presence_penalty = 0;
  float frequency_penalty = 0;
  /// Tokens with probability 0 in rows less than `num_removing` levels below the root.
  std::span<const token_id> removed;
  std::uint32_t num_removing = 0;

  bool penalises() const noexcept {
    return repetition_penalty != 1.0F || presence_penalty != 0.0F || frequency_penalty != 0.0F;
  }
};

/// The result for a request.
struct chosen_run {
  std::int32_t place = -1; ///< the deepest accepted node; -1: the root, because no node was accepted
  token_id next;           ///< the token that the row of `place` chooses
  bool bonus = false;      ///< true if no node was rejected: the accepted path ends in a leaf
  bool hopeless = false;   ///< true if the row of `place` had no finite logit; `next` is then the lowest id
};

/// Largest number of nodes in a draft.
inline constexpr std::uint32_t max_draft_nodes = 64;

/// Chooses a token from each row and verifies the drafts: starting at the root, the current row's choice
/// decides, and a child is accepted if it has that token. Siblings with equal tokens count as one node with
/// the branches of all of them. If the accepted path then ends in several nodes, `place` is the first of
/// those that have the first parent. This is rule `coupled` (speculation::verify_coupled). A row's choice
/// equals that of sampling::pipeline::choose for the same settings, to the bit:
/// - The logits are changed in float32: x + bias. Tokens of `counts`, and of the row's path from the root: x
///   / repetition_penalty if x > 0, else x * repetition_penalty. Tokens with n > 0 occurrences in output and
///   path: x - (frequency_penalty * n + presence_penalty). Removed tokens: -infinity.
/// - At temperature 0 the token with the largest logit is chosen; NaN never; ties go to the lowest id.
/// - At other temperatures +infinity counts as the largest finite number and NaN as -infinity, and a token
///   has the score (x - largest) / temperature. With top_k the first top_k tokens by falling score remain;
///   ties go to the lowest id; -infinity never remains. With top_p < 1 only a leading run of these remains:
///   the shortest one whose weight is at least double(top_p) * total. A weight is portable_exp(score); both
///   sums are in double, one weight after another in this order. Tokens below min_score are removed. Of the
///   rest, the token with the largest double(score) + noise is chosen (runtime/base/philox.hpp, purpose
///   `target`, at position + level); ties go to the lowest id.
///
/// Leaves `logits` in an unspecified state. The results are at `out` after the next `ops::deliver`. Until
/// then they are in device memory, at the address that the op returns.
struct choose_args {
  float* logits = nullptr; ///< [num_rows][vocab_size]
  std::uint32_t num_rows = 0;
  std::uint32_t vocab_size = 0;
  std::span<const token_choice> requests;
  std::span<chosen_run> out; ///< one for each request
};

} // namespace paceline::device
