#include "config/drafters.hpp"

#include <algorithm>

namespace paceline::config {

namespace {

/// Levels per round of the client's own draft: such drafts are right for long stretches or not at all.
constexpr std::uint32_t prediction_length = 16;

drafter_options called_as_its_kind(const char* kind) {
  drafter_options made;
  made.name = made.kind = kind;
  return with_kind_defaults(std::move(made));
}

} // namespace

bool drafts_with_head(const std::string& kind) {
  return kind == "eagle" || kind == "eagle2" || kind == "eagle3";
}

drafter_options with_kind_defaults(drafter_options options) {
  const bool grows_trees = options.kind == "eagle2" || options.kind == "eagle3";
  if (options.tree == tree_kind::by_kind) options.tree = grows_trees ? tree_kind::dynamic : tree_kind::chain;
  if (options.max_tree_nodes == 0)
    options.max_tree_nodes =
        grows_trees && options.tree == tree_kind::dynamic ? std::max(8U, options.draft_length) : 64;
  return options;
}

std::vector<drafter_options> drafters_of(const model_options& model) {
  auto all = model.drafters;
  for (auto& drafter : all) drafter = with_kind_defaults(std::move(drafter));
  if (all.empty()) all = {called_as_its_kind("ngram"), called_as_its_kind("suffix")};
  const auto takes_place = [](const drafter_options& d) {
    return d.kind == "prediction" || d.name == "prediction";
  };
  if (std::ranges::any_of(all, takes_place)) return all;
  all.push_back(called_as_its_kind("prediction"));
  all.back().draft_length = prediction_length;
  return all;
}

} // namespace paceline::config
