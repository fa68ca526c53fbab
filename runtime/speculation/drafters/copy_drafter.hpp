#pragma once

#include "runtime/speculation/drafters/registry.hpp"

namespace paceline::speculation {

/// Kind "copy" (Leviathan et al. 2023, section 3.6): assumes that the output copies a part of the prompt, and
/// drafts the prompt's tokens after the place that the output has reached. If the output differs from the
/// prompt there, a new place is searched: the place after the longest suffix of the output (1 to 16 tokens)
/// that occurs in the prompt. Nothing is drafted before the first output token.
expected<std::unique_ptr<drafter>> make_copy_drafter(const drafter_parts& parts);

} // namespace paceline::speculation
