#pragma once

#include "runtime/base/ids.hpp"
#include "runtime/base/request.hpp"

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace paceline::sampling {

/// How often each token occurs in a request's committed context: what the penalties read.
class token_counts {
public:
  void add_prompt(std::span<const token_id> tokens);
  void add_output(token_id token);
  std::uint32_t in_output(token_id token) const noexcept;
  bool in_context(token_id token) const noexcept; ///< prompt or output
  struct entry { std::uint32_t output = 0; bool prompt = false; };
  const std::unordered_map<token_id, entry>& entries() const noexcept { return entries_; }

private:
  std::unordered_map<token_id, entry> entries_;
};

/// Where in the request a row stands whose logits are processed.
struct row_context {
  const token_counts* committed = nullptr;  ///< counts of the committed tokens
  std::span<const token_id> draft_path;     ///< draft tokens between the last committed one and this row, in order
  token_position position;                  ///< of the token to be chosen
  std::uint32_t output_index = 0;           ///< of the token to be chosen: 0 for the first output token
};

/// The one way from logits to a token. Plain decoding, drafting, verification and audits call it, so that a row's token
/// depends on its logits, its context and the request alone. Const and thread-safe after construction; scratch is the
/// caller's.
///
/// Order: raw logits -> logit bias -> repetition, presence, frequency penalty over the growing context -> minimum length
/// (EOS and stop ids removed) -> temperature -> top-k -> top-p -> min-p. Ties everywhere go to the lowest id.
class pipeline {
public:
  pipeline(const sampling_params& params, const stop_params& stop);

  /// Processes one row. `logits` [vocab] raw in, log-probabilities of the processed distribution out (natural log,
  /// -infinity for removed tokens). At temperature 0 the result is one-hot: 0 for the chosen token, else -infinity.
  void process(std::span<float> logits, const row_context& row) const;

  /// The request's own sample at a position, a fixed function of (processed row, seed, position, choice index):
  /// argmax of log-probability + Gumbel noise keyed by token id; at temperature 0 the argmax.
  token_id sample(std::span<const float> log_probs, token_position position) const;

  /// process + sample for greedy or unmodified rows without touching more than needed; equals process then sample, to
  /// the bit. `logits` is left in an unspecified state.
  token_id process_and_sample(std::span<float> logits, const row_context& row) const;

  bool greedy() const noexcept { return params_.temperature == 0.0F; }
  const sampling_params& params() const noexcept { return params_; }

private:
  sampling_params params_;
  std::vector<token_id> stop_like_ids_; ///< removed before min_tokens
  std::uint32_t min_tokens_ = 0;
};

/// Raw log-softmax of `token` and the `num_top` best (best first, ties to the lowest id), accumulated in double.
struct raw_logprobs {
  float chosen = 0;
  std::vector<std::pair<token_id, float>> top;
};
raw_logprobs log_softmax_of(std::span<const float> raw_logits, token_id token, std::uint32_t num_top);

} // namespace paceline::sampling
