#pragma once

#include "runtime/base/ids.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>

namespace paceline::device {

/// Largest top-k that a device takes: behind it both sums of top-p have an order that it can repeat.
inline constexpr std::uint32_t most_top_k = 128;

/// A token whose logit the penalties change.
struct penalised_token {
  token_id token;
  std::uint32_t num_output = 0; ///< occurrences in the committed output; 0: in the prompt only
};

/// A request that tokens are chosen for: its draft, a tree whose root is the last committed token, and how a
/// row of logits becomes a token. Rows follow one another: the root's, then those of the nodes in their
/// order.
struct token_choice {
  std::uint32_t first_row = 0;            ///< the root's
  std::span<const token_id> draft_tokens; ///< of the nodes, at most max_draft_nodes
  std::span<const std::int32_t> parents;  ///< of the nodes: a node before, or -1 for the root
  token_position position;                ///< of the token that the root's row chooses

  float temperature = 1;   ///< 0: the largest logit
  std::uint32_t top_k = 0; ///< only so many of the likeliest are in, at most most_top_k; 0: all
  float top_p = 1; ///< of those, only a leading run of this part of their weight; 1: all, as without top_k
  float min_score = -std::numeric_limits<float>::infinity(); ///< tokens of a lower score are out
  std::uint64_t seed = 0;
  std::uint32_t choice_index = 0;

  std::span<const std::pair<token_id, float>> biases; ///< each token once
  std::span<const penalised_token> counts;            ///< each token once; not read without penalties
  float repetition_penalty = 1;
  float presence_penalty = 0;
  float frequency_penalty = 0;
  std::span<const token_id> removed; ///< from rows of fewer than `num_removing` levels below the root
  std::uint32_t num_removing = 0;

  bool penalises() const noexcept {
    return repetition_penalty != 1.0F || presence_penalty != 0.0F || frequency_penalty != 0.0F;
  }
};

/// What was chosen.
struct chosen_run {
  std::int32_t place = -1; ///< the deepest node that was accepted; -1: none
  token_id next;           ///< chosen by its row
  bool bonus = false;      ///< no node was rejected: `place` has none below it
  bool hopeless = false;   ///< the row had no finite logit; `next` is the lowest id
};

/// Most nodes of a draft.
inline constexpr std::uint32_t max_draft_nodes = 64;

/// Chooses a token from each row, and walks down the drafts: at each place the row's own choice decides; a
/// node is accepted if it has that token. Nodes of one place with equal tokens count as one, with the
/// branches of all; of equally deep ones `place` is the first one below the first accepted parent. This is
/// rule `coupled` (speculation::verify_coupled), and a row's choice is that of sampling::pipeline::choose for
/// the same settings, to the bit:
/// - of the logits x, in float32: x + bias; then, for tokens of `counts` or of the row's path from the root,
/// x /
///   repetition_penalty if x > 0, else x * repetition_penalty; less frequency_penalty * n + presence_penalty
///   where n, the occurrences in output and path, is not 0; removed tokens -infinity;
/// - at temperature 0 the largest, NaN never, ties to the lowest id;
/// - else, with +infinity as the largest finite number and NaN as -infinity, the score (x - largest) /
///   temperature. With top_k the first top_k tokens by falling score, ties to the lowest id, -infinity never;
///   with top_p < 1 of these the shortest leading run that weighs no less than double(top_p) * total, a
///   weight being portable_exp(score) and both sums in double, one weight after another in that order. Then,
///   of what is not below min_score, the largest double(score) + noise (runtime/base/philox.hpp, purpose
///   `target`, at position + level), ties to the lowest id.
///
/// `logits` is left in an unspecified state. What was chosen is at `out` after the next `ops::deliver`; what
/// the op returns is where the device has it before.
struct choose_args {
  float* logits = nullptr; ///< [num_rows][vocab_size]
  std::uint32_t num_rows = 0;
  std::uint32_t vocab_size = 0;
  std::span<const token_choice> requests;
  std::span<chosen_run> out; ///< one a request
};

} // namespace paceline::device
