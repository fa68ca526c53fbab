#pragma once

#include "runtime/base/token_constraint.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace paceline::grammar {

/// The texts by which a reasoning model separates its thoughts from its answer, if they are no tokens of
/// their own: the tokens that spell them may also contain what stands beside them.
struct thought_spellings {
  std::string open;  ///< begins an output that has thoughts; empty: the prompt has opened the thoughts
  std::string close; ///< ends the thoughts; not empty
  std::vector<token_id> end_ids; ///< tokens that end an output; they are not allowed within thoughts
};

/// The text of a token.
using token_speller = std::function<std::string(token_id)>;

/// Like `after_thoughts` (after_thoughts.hpp), for marks that are spelled. The token that completes the
/// closing mark may contain blanks after it, which belong to neither part, and no other text. Spells every
/// token once.
std::shared_ptr<const token_constraint> after_spelled_thoughts(std::shared_ptr<const token_constraint> answer,
                                                               thought_spellings marks,
                                                               const token_speller& spell,
                                                               std::uint32_t vocab_size);

} // namespace paceline::grammar
