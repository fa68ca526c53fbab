#pragma once

#include "runtime/speculation/drafters/registry.hpp"

namespace paceline::speculation {

/// Kinds "pass" (PaSS, Monea et al. 2023) and "ppd" (parallel prompt decoding, Chen et al. 2024): adds rows
/// with trained inputs to the target's pass, as probes after a token. The target's likeliest tokens in these
/// rows are the next draft if that token was the last one accepted. Kind "pass" puts probes only after the
/// newest token, in a pass without a draft, so two passes correspond to one round of the paper. Kind "ppd"
/// also puts them after every node of its tree. Draft tokens are chosen without randomness under every rule
/// (docs/decisions/0585). Needs `own_inputs`.
expected<std::unique_ptr<drafter>> make_trained_rows_drafter(const drafter_parts& parts);

} // namespace paceline::speculation
