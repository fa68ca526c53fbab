#pragma once

#include "runtime/base/ids.hpp"
#include "runtime/base/philox.hpp"
#include "runtime/base/request.hpp"
#include "runtime/base/token_constraint.hpp"
#include "runtime/device/op_choose.hpp"
#include "runtime/sampling/token_counts.hpp"
#include "runtime/sampling/truncation.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace paceline::sampling {

/// The row whose logits are processed, and its context in the request.
struct row_context {
  const token_counts* committed = nullptr; ///< counts of the committed tokens; may be null without penalties
  /// Draft tokens between the last committed token and this row, in order.
  std::span<const token_id> draft_path = {};
  token_position position = {};   ///< of the token to be chosen
  std::uint32_t output_index = 0; ///< of the token to be chosen: 0 for the first output token
  /// Cursor of the request's constraint; null: no constraint. `output`: the committed output tokens.
  constraint_cursor* constraint = nullptr;
  std::span<const token_id> output = {};
};

/// The token chosen from a row.
struct choice {
  token_id token;
  /// No token had a finite logit (NaN counts as -infinity); `token` is then the lowest id.
  bool hopeless = false;
};

/// A token and how likely it is to be the choice.
struct ranked_token {
  token_id token;
  float weight = 0; ///< estimated probability that it is the choice; falls with the rank
};

/// Turns logits into a token. Plain decoding, drafting and verification all use it, so a row's token depends
/// only on its logits, its context and the request. Const and thread-safe after construction; scratch memory
/// is per thread.
///
/// Order: raw logits -> logit bias -> repetition, presence, frequency penalty over the context and draft path
/// -> minimum length (EOS and stop ids removed) -> constraint -> temperature -> top-k -> top-p -> min-p. Ties
/// go to the lowest id. A NaN logit counts as -infinity, +infinity as the largest finite number.
class pipeline {
 public:
  pipeline(const sampling_params& params, const stop_params& stop);

  /// Processes one row in place from raw logits to scores. A score is the natural logarithm of the token's
  /// probability relative to that of the likeliest token: 0 for the likeliest, -infinity for removed tokens.
  /// (It is relative because few callers need the sum over the vocabulary: `total_weight`.) At temperature 0
  /// the result is one-hot. False if no token had a finite logit; all scores are then -infinity.
  bool process(std::span<float> logits, const row_context& row) const;

  /// Writes the scores at temperature 1 without truncation, whatever the request's temperature: they rank the
  /// tokens after bias, penalties, minimum length and constraint. At temperature 0 the token with the highest
  /// score is chosen. False if no token had a finite logit; the row is then in an unspecified state.
  bool rank(std::span<float> logits, const row_context& row) const;

  /// The request's sample at a position: argmax of score + Gumbel noise keyed by token id; at temperature 0
  /// the argmax of the score. A fixed function of (processed row, seed, position, choice index).
  token_id sample(std::span<const float> scores, token_position position) const;

  /// Gives the same result as `process` and `sample`, bit for bit, without the work that only `process`
  /// needs. Leaves `logits` in an unspecified state.
  choice choose(std::span<float> logits, const row_context& row) const;
  token_id process_and_sample(std::span<float> logits, const row_context& row) const {
    return choose(logits, row).token;
  }

  /// Settings with which a device makes the same choice as `choose` in row `first` and, with a draft, in the
  /// rows below it. All fields are set except the draft and `first_row`. The settings refer to `counts`.
  /// nullopt if devices cannot make this choice. They cannot with a constraint. Above temperature 0 they also
  /// cannot with a top-k above device::max_top_k, and with a top-p unless a top-k up to that limit is set.
  std::optional<device::token_choice> settings_for_device(const row_context& first, std::size_t vocab_size,
                                                          std::vector<device::penalised_token>& counts) const;

  /// The tokens most likely to be the choice: the result of `choose` first, then by falling score + noise;
  /// ties go to the lowest id. At most `count`; fewer if fewer have a finite score. The weights are the
  /// softmax of score + noise over these tokens and the next 8, which approximates the softmax over the
  /// vocabulary. At temperature 0 like `rank_likeliest`. Leaves `logits` in an unspecified state.
  void rank_choices(std::span<float> logits, const row_context& row, std::size_t count,
                    std::vector<ranked_token>& out) const;
  /// The same without noise: the likeliest tokens. The weights are their probabilities; at temperature 0, the
  /// probabilities at temperature 1.
  void rank_likeliest(std::span<float> logits, const row_context& row, std::size_t count,
                      std::vector<ranked_token>& out) const;

  /// Random numbers of this request for one purpose at one position. `place`: number of the draw at this
  /// position.
  noise_stream noise(noise_purpose purpose, token_position position, std::uint32_t place = 0) const noexcept {
    return {.seed = params_.seed,
            .position = position,
            .choice_index = params_.choice_index,
            .purpose = purpose,
            .place = place};
  }

  bool greedy() const noexcept { return params_.temperature == 0.0F; }
  /// True if a row's result depends on the token counts of the context.
  bool reads_counts() const noexcept { return penalties_; }
  const sampling_params& params() const noexcept { return params_; }

 private:
  void edit(std::span<float> logits, const row_context& row) const;
  void penalise(std::span<float> logits, const row_context& row) const;
  row_scale scale_of(std::span<const float> maxima, float temperature) const noexcept;
  float penalised(float logit, std::uint32_t num_output) const noexcept;

  sampling_params params_;
  truncation truncation_;
  bool penalties_ = false;
  std::vector<token_id> stop_like_ids_; ///< removed until min_tokens is reached
  std::uint32_t min_tokens_ = 0;
};

/// Sum of e^score over a processed row in double precision. The probability of token t is
/// portable_exp(scores[t]) / total.
double total_weight(std::span<const float> scores);

/// Raw log-softmax (natural logarithm) of `token` and of the `num_top` best tokens (best first, ties to the
/// lowest id), accumulated in double precision.
struct raw_logprobs {
  float chosen = 0;
  std::vector<std::pair<token_id, float>> top;
};
raw_logprobs log_softmax_of(std::span<const float> raw_logits, token_id token, std::uint32_t num_top);

} // namespace paceline::sampling
