#pragma once

#include "runtime/speculation/drafters/registry.hpp"

namespace paceline::speculation {

/// Kind "ngram" (prompt lookup, Saxena 2023): finds the longest suffix of prompt and output that occurred
/// before and proposes what followed its last occurrence; with `candidates` > 1 several distinct
/// continuations as a tree. Needs no weights and no device; runs in line.
expected<std::unique_ptr<drafter>> make_ngram_drafter(const drafter_parts& parts);

} // namespace paceline::speculation
