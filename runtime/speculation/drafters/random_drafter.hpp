#pragma once

#include "runtime/speculation/drafters/registry.hpp"

namespace paceline::speculation {

/// Kind "random" (Leviathan et al. 2023, section 3.6): random tokens, as a function of option `seed`, request
/// and position; nearly always wrong. Under rules that compare probabilities it draws uniformly from 64
/// random tokens.
expected<std::unique_ptr<drafter>> make_random_drafter(const drafter_parts& parts);

} // namespace paceline::speculation
