#include "config/drafters.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <string_view>

namespace paceline::config {

namespace {

/// The default number of levels of a drafter that computes or looks up one level after another.
constexpr std::uint32_t usual_length = 5;
/// The maximum that a configuration may set: a round has 64 rows, and one of them is the newest token's.
constexpr std::uint32_t most_levels = 63;

/// The default number of levels for a draft that the client sends. Such drafts are either right for long
/// stretches or not at all.
constexpr std::uint32_t length_of_what_is_known = 16;

/// A tree of Medusa for any model, in falling order of the nodes' gain (mc_sim_7b_63 of the published code).
constexpr std::array<const char*, 63> general_medusa_tree = {
    "0",     "0.0",   "1",     "0.1",     "2",     "0.0.0",   "1.0",   "0.2",   "3",     "0.3",   "4",
    "0.4",   "2.0",   "0.5",   "0.0.1",   "5",     "0.6",     "6",     "0.7",   "0.1.0", "1.1",   "7",
    "0.8",   "0.0.2", "3.0",   "0.9",     "8",     "9",       "1.0.0", "0.2.0", "1.2",   "0.0.3", "4.0",
    "2.1",   "0.0.4", "0.0.5", "0.0.0.0", "0.1.1", "0.0.6",   "0.3.0", "5.0",   "1.3",   "0.0.7", "0.0.8",
    "0.0.9", "6.0",   "0.4.0", "1.4",     "7.0",   "0.1.2",   "2.0.0", "3.1",   "2.2",   "8.0",   "0.5.0",
    "1.5",   "1.0.1", "0.2.1", "9.0",     "0.6.0", "0.0.0.1", "1.6",   "0.7.0"};

drafter_options called_as_its_kind(std::string_view kind) {
  drafter_options made;
  made.name = made.kind = std::string(kind);
  return with_kind_defaults(std::move(made));
}

} // namespace

bool drafts_with_head(const std::string& kind) {
  constexpr std::string_view kinds[] = {"eagle", "eagle2",         "eagle3", "medusa", "blockwise", "mtp",
                                        "hydra", "mlp_speculator", "dart",   "dflash", "dspark"};
  return std::ranges::find(kinds, kind) != std::end(kinds) || drafts_with_inputs(kind);
}

bool drafts_with_inputs(const std::string& kind) { return kind == "pass" || kind == "ppd"; }

bool drafts_all_levels(const std::string& kind) {
  constexpr std::string_view kinds[] = {"medusa", "blockwise", "hydra", "mlp_speculator", "dart", "dflash",
                                        "dspark", "pass",      "ppd"};
  return std::ranges::find(kinds, kind) != std::end(kinds);
}

bool widens_for_beams(const drafter_options& options) {
  constexpr std::string_view kinds[] = {"model", "self", "eagle", "mtp"};
  return options.tree == tree_kind::by_kind && std::ranges::find(kinds, options.kind) != std::end(kinds) &&
         options.vocabulary != draft_vocabulary::retokenise; // whose text is a chain
}

drafter_options with_kind_defaults(drafter_options options, std::uint32_t num_levels) {
  if (options.draft_length == 0)
    options.draft_length = drafts_all_levels(options.kind) ? std::min(num_levels, most_levels) : usual_length;
  const bool grows_trees = options.kind == "eagle2" || options.kind == "eagle3";
  const bool has_template = options.kind == "medusa" || options.kind == "hydra";
  constexpr std::uint32_t published_dart_nodes = 60;
  if (options.tree == tree_kind::by_kind && options.kind == "dart") options.tree = tree_kind::dart;
  if (options.tree == tree_kind::dart && options.max_tree_nodes == 0)
    options.max_tree_nodes = published_dart_nodes;
  if (options.tree == tree_kind::by_kind && !widens_for_beams(options))
    options.tree = grows_trees                             ? tree_kind::dynamic
                   : has_template || options.kind == "ppd" ? tree_kind::fixed
                                                           : tree_kind::chain;
  if (has_template && options.tree == tree_kind::fixed && options.tree_paths.empty())
    options.tree_paths = {general_medusa_tree.begin(), general_medusa_tree.end()};
  if (options.max_tree_nodes == 0)
    options.max_tree_nodes =
        grows_trees && options.tree == tree_kind::dynamic ? std::max(8U, options.draft_length) : 64;
  return options;
}

std::vector<drafter_options> drafters_of(const model_options& model) {
  auto all = model.drafters;
  for (auto& drafter : all) drafter = with_kind_defaults(std::move(drafter));
  if (all.empty()) all = {called_as_its_kind("ngram"), called_as_its_kind("suffix")};
  for (const std::string_view kind : always_available) {
    const auto takes_place = [&](const drafter_options& d) { return d.kind == kind || d.name == kind; };
    if (std::ranges::any_of(all, takes_place)) continue;
    all.push_back(called_as_its_kind(kind));
    all.back().draft_length = length_of_what_is_known;
  }
  return all;
}

} // namespace paceline::config
