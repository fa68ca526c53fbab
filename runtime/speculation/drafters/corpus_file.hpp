#pragma once

#include "runtime/speculation/drafters/registry.hpp"

#include <vector>

namespace paceline::speculation {

/// Tokens of the file that option `corpus` names: text, or decimal token ids between white space if its name
/// ends in ".ids". Empty without the option. At most 256 MiB.
expected<std::vector<token_id>> read_corpus(const drafter_parts& parts);

} // namespace paceline::speculation
