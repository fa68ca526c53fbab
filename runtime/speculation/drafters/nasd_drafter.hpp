#pragma once

#include "runtime/speculation/drafters/registry.hpp"

namespace paceline::speculation {

/// Kind "nasd" (n-gram assisted speculative decoding): counts which token follows the last ngram_min - 1 to
/// ngram_max - 1 tokens. It counts the text and, at every position that the target has verified, the
/// `top_tokens` best tokens, which add continuations that the text does not contain. Drafts the most frequent
/// token after the longest known run, repeatedly.
expected<std::unique_ptr<drafter>> make_nasd_drafter(const drafter_parts& parts);

} // namespace paceline::speculation
