#pragma once

#include "runtime/speculation/drafters/registry.hpp"

namespace paceline::speculation {

/// Kind "synthetic": right with the probability set by option `acceptance`, for tests and benches. It reads
/// the right tokens from the request's `prediction`, which must be the whole output of an earlier run with
/// the same seed. A wrong token is the right id plus one. Proposes nothing beyond the end of the
/// prediction.
expected<std::unique_ptr<drafter>> make_synthetic_drafter(const drafter_parts& parts);

} // namespace paceline::speculation
