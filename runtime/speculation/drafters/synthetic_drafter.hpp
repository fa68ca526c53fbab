#pragma once

#include "runtime/speculation/drafters/registry.hpp"

namespace paceline::speculation {

/// Kind "synthetic": right as often as option `acceptance` says, for tests and benches. What is right it
/// reads from the request's `prediction`, which must be the output itself (of an earlier run with the same
/// seed), from its first token on; wrong tokens are the right one's neighbours. Proposes nothing behind the
/// end of the prediction.
expected<std::unique_ptr<drafter>> make_synthetic_drafter(const drafter_parts& parts);

} // namespace paceline::speculation
