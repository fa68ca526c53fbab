#pragma once

#include "runtime/speculation/drafters/registry.hpp"

namespace paceline::speculation {

/// Kinds "pass" (PaSS, Monea et al. 2023) and "ppd" (parallel prompt decoding, Chen et al. 2024): rows with
/// trained inputs ride in the target's pass as probes behind a token; the target's likeliest tokens on them
/// are the next draft if that token was the last one accepted. Kind "pass" has them behind the newest token,
/// in a pass without a draft, so that two passes make a round of the paper; kind "ppd" has them behind every
/// node of its tree, too. Draft tokens are certain under every rule (docs/decisions/0585). Needs
/// `own_inputs`.
expected<std::unique_ptr<drafter>> make_trained_rows_drafter(const drafter_parts& parts);

} // namespace paceline::speculation
