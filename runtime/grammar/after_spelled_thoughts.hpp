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
/// `close` is spelled by several tokens. The token that completes `close` may contain blanks after it, but no
/// other text; these blanks belong neither to the thoughts nor to the answer. `end_ids`: tokens that end an
/// output; they are not allowed within thoughts. Calls `spell` once for each token.
std::shared_ptr<const token_constraint>
after_spelled_thoughts(std::shared_ptr<const token_constraint> answer, std::string close,
                       std::vector<token_id> end_ids, const token_speller& spell, std::uint32_t vocab_size);

} // namespace paceline::grammar
