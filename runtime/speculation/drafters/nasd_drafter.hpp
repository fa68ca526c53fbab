#pragma once

#include "runtime/speculation/drafters/registry.hpp"

namespace paceline::speculation {

/// Kind "nasd" (n-gram assisted speculative decoding): counts which tokens follow each run of ngram_min - 1
/// to ngram_max - 1 tokens (a run has at least one). It counts the tokens of the text. At each position that
/// the target has verified it also counts the target's `top_tokens` best tokens, which may give continuations
/// that do not occur in the text. A draft is built token by token: each is the most frequent one after the
/// longest known run.
expected<std::unique_ptr<drafter>> make_nasd_drafter(const drafter_parts& parts);

} // namespace paceline::speculation
