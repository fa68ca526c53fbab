#pragma once

#include "runtime/base/philox.hpp"
#include "runtime/base/request.hpp"

#include <optional>
#include <span>
#include <vector>

/// A simple second implementation of the sampling pipeline: one full sort, doubles, the library's functions,
/// the whole context as a list of tokens. Slow. `sampling::pipeline` must agree with it.
namespace paceline::test {

struct reference_row {
  std::vector<double> probs; ///< processed distribution; all 0 for a row without a finite logit
  bool near_a_limit = false; ///< a truncation limit is so close to a token that rounding may decide about it
};

/// `context` = prompt, then output (draft tokens included); the first `prompt_length` tokens are the prompt.
reference_row process(std::span<const float> logits, const sampling_params& params, const stop_params& stop,
                      std::span<const token_id> context, std::size_t prompt_length);

/// The request's sample at the position after `context`.
std::optional<token_id> sample(const reference_row& row, const sampling_params& params,
                               token_position position);

/// Natural logarithm of a probability plus noise, over all tokens: the definition of a Gumbel-max draw.
double library_gumbel(std::uint64_t seed, std::uint32_t choice_index, noise_purpose purpose,
                      token_position position, token_id token);

} // namespace paceline::test
