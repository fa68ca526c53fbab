#pragma once

#include "runtime/speculation/drafters/registry.hpp"

namespace paceline::speculation {

/// Kind "forced": what the request's constraint leaves no choice about, such as the names of a JSON schema
/// ("jump-forward decoding": Zheng et al. 2024, "SGLang: Efficient Execution of Structured Language Model
/// Programs", section 4). As draft tokens it is verified like any other draft, so the output keeps the
/// target's own division of the text into tokens. Proposes nothing for a request without a constraint. Needs
/// no weights and no device; runs inline.
expected<std::unique_ptr<drafter>> make_forced_drafter(const drafter_parts& parts);

} // namespace paceline::speculation
