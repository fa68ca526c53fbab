#pragma once

#include "runtime/speculation/drafters/registry.hpp"

namespace paceline::speculation {

/// Kind "unigram" (Leviathan et al. 2023, section 3.6): tokens by how often they occur, in a corpus file and
/// in the request itself, whatever stands before them. Sends distributions of 64 tokens at most.
expected<std::unique_ptr<drafter>> make_unigram_drafter(const drafter_parts& parts);

} // namespace paceline::speculation
