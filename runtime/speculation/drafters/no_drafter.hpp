#pragma once

#include "runtime/speculation/drafters/registry.hpp"

namespace paceline::speculation {

/// Kind "none": proposes nothing, so that every round is plain decoding. The baseline of every comparison.
expected<std::unique_ptr<drafter>> make_no_drafter(const drafter_parts& parts);

} // namespace paceline::speculation
