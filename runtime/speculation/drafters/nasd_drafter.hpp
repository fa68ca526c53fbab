#pragma once

#include "runtime/speculation/drafters/registry.hpp"

namespace paceline::speculation {

/// Kind "nasd" (n-gram assisted speculative decoding): counts which token follows which last ngram_min - 1 to
/// ngram_max - 1 tokens, in the text and, at every position the target has verified, among its `top_tokens`
/// best ones (those fill the table with what the text does not show). Drafts the most frequent token of the
/// longest known run, again and again.
expected<std::unique_ptr<drafter>> make_nasd_drafter(const drafter_parts& parts);

} // namespace paceline::speculation
