#include "config/drafters.hpp"

#include <algorithm>

namespace paceline::config {

namespace {

/// Levels per round of the client's own draft: such drafts are right for long stretches or not at all.
constexpr std::uint32_t prediction_length = 16;

drafter_options called_as_its_kind(const char* kind) {
  drafter_options made;
  made.name = made.kind = kind;
  return made;
}

} // namespace

std::vector<drafter_options> drafters_of(const model_options& model) {
  auto all = model.drafters;
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
