#pragma once

#include "runtime/speculation/drafters/registry.hpp"

namespace paceline::speculation {

/// Kind "suffix" (SuffixDecoding, Oliaro et al. 2024): finds where the last tokens occurred before, in the
/// request's prompt and output and in a bounded corpus of the same tenant's earlier outputs. Proposes the
/// continuations as a tree, likely ones first. Needs no weights and no device; runs in line.
///
/// Instead of a suffix tree it indexes suffixes of 1, 2, 4, ... tokens and compares the remaining tokens one
/// by one. So a token is added or dropped in constant time, and memory is proportional to the text (about 270
/// bytes for each token). It finds the longest agreement among the `ngram_index::max_looks` latest
/// occurrences of the longest indexed suffix.
expected<std::unique_ptr<drafter>> make_suffix_drafter(const drafter_parts& parts);

} // namespace paceline::speculation
