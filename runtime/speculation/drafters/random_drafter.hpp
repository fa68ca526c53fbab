#pragma once

#include "runtime/speculation/drafters/registry.hpp"

namespace paceline::speculation {

/// Kind "random" (Leviathan et al. 2023, section 3.6): tokens at random, a function of option `seed`, request
/// and position. The drafter that is wrong as often as one can be. Under rule `rejection` it draws uniformly
/// from 64 random tokens.
expected<std::unique_ptr<drafter>> make_random_drafter(const drafter_parts& parts);

} // namespace paceline::speculation
