#pragma once

#include "runtime/speculation/drafters/registry.hpp"

namespace paceline::speculation {

/// Kind "ngram" (prompt lookup): finds the longest suffix of prompt and output that occurred before and
/// proposes what followed it the last time; with `candidates` > 1 several distinct continuations as a tree.
/// No weights, no device; runs inline.
expected<std::unique_ptr<drafter>> make_ngram_drafter(const drafter_parts& parts);

} // namespace paceline::speculation
