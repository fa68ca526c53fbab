#pragma once

#include "runtime/speculation/drafters/registry.hpp"

#include <vector>

namespace paceline::speculation {

/// Tokens of the file named by option `corpus`. A file whose name ends in ".ids" has decimal token ids
/// separated by whitespace; any other file has text. Empty if the option is not set. At most 256 MiB.
expected<std::vector<token_id>> read_corpus(const drafter_parts& parts);

} // namespace paceline::speculation
