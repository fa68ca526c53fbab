#pragma once

#include "runtime/base/token_constraint.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace paceline::grammar {

/// The tokens by which a reasoning model separates its thoughts from its answer.
struct thought_tokens {
  /// First token of an output that has thoughts; nullopt: the prompt has opened the thoughts.
  std::optional<token_id> open;
  token_id close;                ///< ends the thoughts; the answer follows it
  std::vector<token_id> end_ids; ///< tokens that end an output; they are not allowed within thoughts
};

/// A constraint that applies `answer` to the text after the model's thoughts. The thoughts themselves are not
/// constrained. The output may have no thoughts, unless the prompt has opened them.
std::shared_ptr<const token_constraint> after_thoughts(std::shared_ptr<const token_constraint> answer,
                                                       thought_tokens tokens, std::uint32_t vocab_size);

} // namespace paceline::grammar
