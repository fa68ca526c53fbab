#pragma once

#include "runtime/speculation/drafters/registry.hpp"

namespace paceline::speculation {

/// Kind "unigram" (Leviathan et al. 2023, section 3.6): drafts tokens by how often they occur in a corpus
/// file and in the request, independent of the context. Reports distributions of at most 64 tokens.
expected<std::unique_ptr<drafter>> make_unigram_drafter(const drafter_parts& parts);

} // namespace paceline::speculation
