#pragma once

#include "runtime/speculation/drafters/registry.hpp"

namespace paceline::speculation {

/// Kind "lookahead" (Fu et al. 2024): a Jacobi iteration beside the text. A window of guessed tokens behind
/// the newest token is computed as probes of the target's pass. The target's best tokens there complete
/// n-grams. These are collected by their first token and verified when that token is committed. Runs in the
/// target's pass.
expected<std::unique_ptr<drafter>> make_lookahead_drafter(const drafter_parts& parts);

} // namespace paceline::speculation
