#pragma once

#include "runtime/speculation/drafters/registry.hpp"

namespace paceline::speculation {

/// Kind "bigram" (Leviathan et al. 2023, section 3.6): drafts tokens by how often they followed the previous
/// one, in a corpus file and in the request itself. The draft ends at a token without a known successor.
/// Fills `draft::probs` if the rule compares probabilities.
expected<std::unique_ptr<drafter>> make_bigram_drafter(const drafter_parts& parts);

} // namespace paceline::speculation
