#pragma once

#include "config/engine_options.hpp"

#include <vector>

namespace paceline::config {

/// What a model drafts with: the drafters it lists, or, if it lists none, `ngram` and `suffix`, which need no
/// model of their own and which drafter `auto` leaves unused where they do not pay. In both cases also
/// `prediction`, for requests that bring a draft, unless one is listed or its name is taken.
std::vector<drafter_options> drafters_of(const model_options& model);

/// Kinds that draft with a trained head, which is read from a directory.
bool drafts_with_head(const std::string& kind);

/// Those of them whose head is a few input vectors of the target (PaSS, PPD): it has no matrices of its own.
bool drafts_with_inputs(const std::string& kind);

/// Kinds whose head has one part for each level, or gives all levels in one pass: by default they draft all
/// of them.
bool drafts_all_levels(const std::string& kind);

/// `options` with the defaults of its kind for what names none: the draft length, the tree's shape and its
/// nodes. EAGLE-2 and EAGLE-3 draft dynamic trees of 8 nodes, Medusa the general one of its published trees,
/// DART its own of 60 nodes, PPD the trees beside its adapter (else one of `tree_top_k`), all others chains,
/// with room for 64 nodes. Kinds that draft all levels draft `num_levels`, those that the drafter's head has,
/// at most 63; until the head is loaded (0) their draft length stays 0. All others draft 5.
drafter_options with_kind_defaults(drafter_options options, std::uint32_t num_levels = 0);

} // namespace paceline::config
