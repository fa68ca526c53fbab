#pragma once

#include "runtime/speculation/drafters/registry.hpp"

namespace paceline::speculation {

/// Kind "suffix" (SuffixDecoding, Oliaro et al. 2024): finds where the last tokens occurred before, in the
/// request's prompt and output and in a bounded corpus of outputs that the same tenant got earlier, and
/// proposes the continuations as a tree, likely ones first. No weights, no device; runs inline.
///
/// In place of a suffix tree it keeps an index of suffixes of 1, 2, 4, ... tokens and compares the rest:
/// tokens are added and forgotten in constant time, and memory is proportional to the text (about 270 bytes a
/// token). The longest agreement is found exactly among the `ngram_index::max_looks` latest occurrences of
/// the longest indexed suffix.
expected<std::unique_ptr<drafter>> make_suffix_drafter(const drafter_parts& parts);

} // namespace paceline::speculation
