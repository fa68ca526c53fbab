#pragma once

#include "runtime/base/ids.hpp"
#include "runtime/model/loader/weights/weights_source.hpp"
#include "runtime/model/model_config.hpp"

#include <span>
#include <vector>

namespace paceline::test {

/// Logits at every position of `tokens`, [tokens.size()][vocab_size]: a second implementation of the decoder
/// in double precision, token by token, from the architecture's definition. Weights must be F32. Of the
/// scaled rotary embeddings it has YaRN and divisors of frequencies.
std::vector<double> reference_logits(const model::model_config& config, const model::weights_source& weights,
                                     std::span<const token_id> tokens);

} // namespace paceline::test
