#pragma once

#include "config/engine_options.hpp"

#include <string_view>
#include <vector>

namespace paceline::config {

/// Kinds that draft from the request itself. Every model gets a drafter of each of these (`drafters_of`).
inline constexpr std::string_view always_available[] = {"prediction", "forced"};

/// The drafters of a model: those that it lists, or `ngram` and `suffix` if it lists none. A drafter of each
/// kind in `always_available`, with draft length 16, is added unless a listed drafter has that kind or name.
/// Options that are not set have the defaults of the drafter's kind (`with_kind_defaults`, `num_levels` 0).
std::vector<drafter_options> drafters_of(const model_options& model);

/// True for kinds that draft with a trained head, read from a directory or a GGUF file.
bool drafts_with_head(const std::string& kind);

/// True for kinds whose head is only a few trained input vectors of the target (PaSS, PPD) and has no
/// matrices.
bool drafts_with_inputs(const std::string& kind);

/// True for kinds whose head has one part for each level, or computes all levels in one pass. By default they
/// draft as many levels as the head has.
bool drafts_all_levels(const std::string& kind);

/// True for drafters that draft a chain by default, with one pass for each level, but draft trees in a beam
/// search, where a step may continue with several children of a token. A wider level costs more rows, but no
/// further pass. `with_kind_defaults` leaves the `tree` of such a drafter at `by_kind`.
bool widens_for_beams(const drafter_options& options);

/// Sets the options that are unset to the defaults of the kind:
/// - `draft_length`: for kinds that draft all levels, `num_levels`, at most 63; for all others 5.
///   `num_levels` is the number of levels of the loaded head. Before the head is loaded it is 0, and the
///   draft length of these kinds stays 0.
/// - `tree`: `dynamic` for eagle2 and eagle3; `fixed` for medusa, hydra and ppd; `dart` for dart; `by_kind`
///   if `widens_for_beams`; `chain` for all others.
/// - `tree_paths`, for a fixed tree of medusa or hydra: the published general tree of Medusa (mc_sim_7b_63).
///   For ppd they stay empty: the trees in the head's directory are used or, if there are none, one made from
///   `tree_top_k`.
/// - `max_tree_nodes`: for dynamic trees of eagle2 and eagle3, 8 or the draft length if that is larger; 60
///   for tree `dart`; 64 for all others.
drafter_options with_kind_defaults(drafter_options options, std::uint32_t num_levels = 0);

} // namespace paceline::config
