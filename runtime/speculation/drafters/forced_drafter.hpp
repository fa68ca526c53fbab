#pragma once

#include "runtime/speculation/drafters/registry.hpp"

namespace paceline::speculation {

/// Kind "forced": drafts text where the request's constraint allows only one continuation, such as the names
/// of a JSON schema ("jump-forward decoding": Zheng et al. 2024, "SGLang: Efficient Execution of Structured
/// Language Model Programs", section 4). The draft is verified, scored and committed like any other.
///
/// Between forced texts the constraint often allows few tokens, such as the white space of JSON. There the
/// draft continues with up to three guesses in a row. A guess is a token whose beginning is forced. If there
/// is none, it is the token that last followed the same two tokens (or else the same single token), if the
/// constraint allows it. A draft without a forced token is dropped, because copying text is the work of
/// `ngram`. The signal of a node distinguishes forced tokens from guesses.
///
/// Proposes nothing for a request without a constraint. Needs no weights and no device; runs in line.
expected<std::unique_ptr<drafter>> make_forced_drafter(const drafter_parts& parts);

} // namespace paceline::speculation
