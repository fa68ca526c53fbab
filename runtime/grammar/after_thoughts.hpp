#pragma once

#include "runtime/base/token_constraint.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace paceline::grammar {

/// How a model that reasons divides its output.
struct thought_tokens {
  std::optional<token_id> open;  ///< opens thoughts as the first token; nullopt: the prompt has opened them
  token_id close;                ///< the answer begins behind it
  std::vector<token_id> end_ids; ///< tokens that end an output: not within thoughts
};

/// The constraint `answer` for the text behind a model's thoughts. Thoughts are free; they may be left out
/// unless the prompt has opened them.
std::shared_ptr<const token_constraint> after_thoughts(std::shared_ptr<const token_constraint> answer,
                                                       thought_tokens tokens, std::uint32_t vocab_size);

} // namespace paceline::grammar
