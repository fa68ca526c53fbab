#pragma once

#include "runtime/speculation/drafters/registry.hpp"

namespace paceline::speculation {

/// Kind "bigram" (Leviathan et al. 2023, section 3.6): tokens by how often they followed the one before, in a
/// corpus file and in the request itself. Ends its draft where nothing is known to follow. Sends
/// distributions.
expected<std::unique_ptr<drafter>> make_bigram_drafter(const drafter_parts& parts);

} // namespace paceline::speculation
