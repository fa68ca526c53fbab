#pragma once

#include "runtime/speculation/drafters/registry.hpp"

namespace paceline::speculation {

/// Kind "copy" (Leviathan et al. 2023, section 3.6): copies the prompt from the current place on. If the
/// output diverges, the new place follows the longest run of last output tokens that occurs in the prompt, of
/// at least one token.
expected<std::unique_ptr<drafter>> make_copy_drafter(const drafter_parts& parts);

} // namespace paceline::speculation
