#pragma once

#include "runtime/speculation/drafters/registry.hpp"

namespace paceline::speculation {

/// Kind "copy" (Leviathan et al. 2023, section 3.6): reads on in the prompt behind the token it stands at.
/// Where the output diverges it goes on behind the longest run of last tokens that the prompt has, one token
/// at least.
expected<std::unique_ptr<drafter>> make_copy_drafter(const drafter_parts& parts);

} // namespace paceline::speculation
