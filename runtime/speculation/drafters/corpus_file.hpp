#pragma once

#include "runtime/speculation/drafters/registry.hpp"

#include <vector>

namespace paceline::speculation {

/// Tokens of the file named by option `corpus`: text, or decimal token ids separated by whitespace if its
/// name ends in ".ids". Empty if the option is not set. At most 256 MiB.
expected<std::vector<token_id>> read_corpus(const drafter_parts& parts);

} // namespace paceline::speculation
