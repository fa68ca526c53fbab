#pragma once

#include "runtime/base/ids.hpp"
#include "runtime/base/philox.hpp"
#include "runtime/base/request.hpp"
#include "runtime/device/op_choose.hpp"
#include "runtime/sampling/token_counts.hpp"
#include "runtime/sampling/truncation.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace paceline::sampling {

/// Where in the request a row stands whose logits are processed.
struct row_context {
  const token_counts* committed = nullptr; ///< counts of the committed tokens; may be null without penalties
  /// Draft tokens between the last committed one and this row, in order.
  std::span<const token_id> draft_path = {};
  token_position position = {};   ///< of the token to be chosen
  std::uint32_t output_index = 0; ///< of the token to be chosen: 0 for the first output token
};

/// What a row decided.
struct choice {
  token_id token;
  bool hopeless = false; ///< no token had a finite logit (NaN counts as -infinity); `token` is the lowest id
};

/// A token that was considered for a place.
struct ranked_token {
  token_id token;
  float weight = 0; ///< estimated probability that it is the choice; falls from rank to rank
};

/// The one way from logits to a token. Plain decoding, drafting, verification and audits call it, so that a
/// row's token depends on its logits, its context and the request alone. Const and thread-safe after
/// construction; scratch is kept per thread.
///
/// Order: raw logits -> logit bias -> repetition, presence, frequency penalty over the growing context ->
/// minimum length (EOS and stop ids removed) -> temperature -> top-k -> top-p -> min-p. Ties everywhere go to
/// the lowest id. A NaN logit counts as -infinity, +infinity as the largest finite number.
class pipeline {
 public:
  pipeline(const sampling_params& params, const stop_params& stop);

  /// Processes one row in place: raw logits in, scores out. A score is the natural logarithm of the token's
  /// probability relative to the likeliest one's: 0 for the likeliest, -infinity for removed tokens.
  /// (Relative, because the sum over the vocabulary is needed by few: `total_weight`.) At temperature 0 the
  /// result is one-hot. False if no token had a finite logit; all scores are then -infinity.
  bool process(std::span<float> logits, const row_context& row) const;

  /// Scores at temperature 1 without truncation, in place, whatever the request's temperature: the likeliest
  /// tokens after bias, penalties and minimum length, from which temperature 0 takes the first.
  bool rank(std::span<float> logits, const row_context& row) const;

  /// The request's own sample at a position, a fixed function of (processed row, seed, position, choice
  /// index): argmax of score + Gumbel noise keyed by token id; at temperature 0 the argmax.
  token_id sample(std::span<const float> scores, token_position position) const;

  /// process, then sample, to the bit, without doing what only `process` needs. `logits` is left in an
  /// unspecified state.
  choice choose(std::span<float> logits, const row_context& row) const;
  token_id process_and_sample(std::span<float> logits, const row_context& row) const {
    return choose(logits, row).token;
  }

  /// The settings with which a device chooses as `choose` does in the row `first` and, with a draft, in those
  /// below it (all but the draft and `first_row` are filled in). None where no device does: with a top-k
  /// beyond device::most_top_k, or top-p without a top-k within it. `counts` is what the settings refer to.
  std::optional<device::token_choice> settings_for_device(const row_context& first, std::size_t vocab_size,
                                                          std::vector<device::penalised_token>& counts) const;

  /// The tokens that come closest to being the choice, `choose`'s own first, then by falling score + noise;
  /// ties go to the lowest id. At most `count`, fewer if fewer have a finite score. Weights: the softmax of
  /// what they are ranked by. `logits` is left in an unspecified state.
  void rank_choices(std::span<float> logits, const row_context& row, std::size_t count,
                    std::vector<ranked_token>& out) const;
  /// The same without noise: the likeliest tokens, weights are their probabilities.
  void rank_likeliest(std::span<float> logits, const row_context& row, std::size_t count,
                      std::vector<ranked_token>& out) const;

  /// Random numbers of this request for one purpose at one position, of several draws there that at `place`.
  noise_stream noise(noise_purpose purpose, token_position position, std::uint32_t place = 0) const noexcept {
    return {.seed = params_.seed,
            .position = position,
            .choice_index = params_.choice_index,
            .purpose = purpose,
            .place = place};
  }

  bool greedy() const noexcept { return params_.temperature == 0.0F; }
  /// Whether rows depend on the counts of the context.
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
  std::vector<token_id> stop_like_ids_; ///< removed before min_tokens
  std::uint32_t min_tokens_ = 0;
};

/// Sum of e^score over a processed row, in double: probability of token t = portable_exp(scores[t]) / total.
double total_weight(std::span<const float> scores);

/// Raw log-softmax of `token` and the `num_top` best (best first, ties to the lowest id), accumulated in
/// double.
struct raw_logprobs {
  float chosen = 0;
  std::vector<std::pair<token_id, float>> top;
};
raw_logprobs log_softmax_of(std::span<const float> raw_logits, token_id token, std::uint32_t num_top);

} // namespace paceline::sampling
