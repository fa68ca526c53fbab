#pragma once

#include "runtime/speculation/drafters/registry.hpp"

namespace paceline::speculation {

/// Kind "forced": what the request's constraint leaves no choice about, such as the names of a JSON schema
/// ("jump-forward decoding": Zheng et al. 2024, "SGLang: Efficient Execution of Structured Language Model
/// Programs", section 4). It is verified, scored and committed like any other draft.
///
/// Between forced texts there is little choice, such as the white space of JSON. There the draft goes on with
/// up to three guesses in a row: the token that followed the same tokens last time, if the constraint allows
/// it. A draft without a forced token is dropped, because copying text is the work of `ngram`. The signal of
/// a node tells forced tokens from guesses.
///
/// Proposes nothing for a request without a constraint. Needs no weights and no device; runs inline.
expected<std::unique_ptr<drafter>> make_forced_drafter(const drafter_parts& parts);

} // namespace paceline::speculation
