#pragma once

#include "config/engine_options.hpp"

#include <string_view>
#include <vector>

namespace paceline::config {

/// Kinds that draft from the request itself. Every model has them, whatever drafters are listed.
inline constexpr std::string_view always_available[] = {"prediction", "forced"};

/// The drafters of a model: those that it lists, or `ngram` and `suffix` if it lists none. Those of
/// `always_available` are added unless a listed drafter has that kind or name. Options that are not set have
/// the defaults of the drafter's kind (`with_kind_defaults` with `num_levels` 0).
std::vector<drafter_options> drafters_of(const model_options& model);

/// True for kinds that draft with a trained head, read from a directory or a GGUF file.
bool drafts_with_head(const std::string& kind);

/// True for kinds whose head is only a few trained input vectors of the target (PaSS, PPD) and has no
/// matrices.
bool drafts_with_inputs(const std::string& kind);

/// True for kinds whose head has one part for each level, or computes all levels in one pass. By default they
/// draft as many levels as the head has.
bool drafts_all_levels(const std::string& kind);

/// True for drafters whose shape is that of the kind, a chain, and which make a level after the other. Below
/// the hypotheses of a beam search such a drafter drafts trees, because a step may continue with several
/// children of a token; a wider level costs it rows and no further pass. `with_kind_defaults` leaves their
/// `tree` as it is (`by_kind`).
bool widens_for_beams(const drafter_options& options);

/// Sets the options that are unset to the defaults of the kind. Trees: dynamic, of 8 nodes (at least the
/// draft length), for eagle2 and eagle3; the published general tree of Medusa (mc_sim_7b_63) for medusa and
/// hydra; tree `dart`, of 60 nodes, for dart; the trees beside the adapter, else one by `tree_top_k`, for
/// ppd; chains for all others. The other node limits are 64. Draft length: `num_levels`, the levels of the
/// loaded head, at most 63, for kinds that draft all levels; 5 for all others. Before the head is loaded,
/// `num_levels` is 0, and the draft length of these kinds stays 0.
drafter_options with_kind_defaults(drafter_options options, std::uint32_t num_levels = 0);

} // namespace paceline::config
