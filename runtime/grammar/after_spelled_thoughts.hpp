#pragma once

#include "runtime/base/token_constraint.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace paceline::grammar {

/// The text of a token.
using token_speller = std::function<std::string(token_id)>;

/// Like `after_thoughts` (after_thoughts.hpp), for thoughts that the prompt has opened and whose closing mark
/// is spelled by several tokens. The token that completes `close` may contain blanks after it, which belong
/// to neither part, and no other text. `end_ids`: tokens that end an output; they are not allowed within
/// thoughts. Spells every token once.
std::shared_ptr<const token_constraint>
after_spelled_thoughts(std::shared_ptr<const token_constraint> answer, std::string close,
                       std::vector<token_id> end_ids, const token_speller& spell, std::uint32_t vocab_size);

} // namespace paceline::grammar
