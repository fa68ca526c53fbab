#pragma once

#include "runtime/speculation/drafters/registry.hpp"

namespace paceline::speculation {

/// Kind "lookahead" (Fu et al. 2024): guesses later tokens by Jacobi iteration. A window of guessed tokens
/// after the newest token is computed as probes of the target's pass. The target's best tokens there complete
/// n-grams. N-grams are collected by their first token and drafted when that token is committed.
expected<std::unique_ptr<drafter>> make_lookahead_drafter(const drafter_parts& parts);

} // namespace paceline::speculation
