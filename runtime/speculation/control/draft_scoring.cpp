#include "runtime/speculation/control/draft_controller.hpp"

#include <algorithm>
#include <vector>

// Compares earlier drafts with the committed tokens, and estimates from that how much of a draft is right.

namespace paceline::speculation {

bool draft_controller::score(draft_history& history, draft_history::proposal& open,
                             std::span<const token_id> tokens) {
  while (open.base_length + open.num_right < tokens.size()) {
    const token_id came = tokens[open.base_length + open.num_right];
    if (!(open.drawn ? score_level(history, open, came) : score_next(history, open, came))) return false;
    ++open.num_right;
  }
  return true;
}

bool draft_controller::score_next(draft_history& history, draft_history::proposal& open, token_id came) {
  acceptance_table& table = tables_[open.candidate];
  for (std::uint32_t node = static_cast<std::uint32_t>(open.at + 1); node < open.tree.size(); ++node) {
    if (open.tree.parents()[node] != open.at) continue;
    const bool right = open.tree.tokens()[node] == came;
    history.bias_[open.candidate].count(table.probability(open.places[node]), right);
    table.count(open.places[node], right);
    if (!right) continue;
    open.at = static_cast<std::int32_t>(node); // later siblings were not tried
    return true;
  }
  return false;
}

bool draft_controller::score_level(draft_history& history, draft_history::proposal& open, token_id came) {
  if (open.num_right >= std::min<std::size_t>(open.num_verified, open.places.size())) return false;
  acceptance_table& table = tables_of_plans_[open.candidate];
  const node_place level = open.places[open.num_right];
  const auto node = open.tree.child(open.at, came);
  history.bias_[open.candidate].count(table.probability(level), node.has_value());
  table.count(level, node.has_value());
  if (node) open.at = *node;
  return node.has_value();
}

void draft_controller::learn(draft_history& history, std::span<const token_id> tokens) {
  history.bias_.resize(tables_.size());
  std::erase_if(history.open_, [&](auto& open) { return !score(history, open, tokens); });
}

/// The probability of each node that it is accepted. The table has the probability that a node is right if
/// its earlier siblings were wrong, so each sibling gets its part of what the earlier ones leave.
std::vector<double> draft_controller::reach_of(const draft& proposal, const draft_history::proposal& known,
                                               const request_bias& bias) const {
  if (known.drawn) return reach_by_level(proposal.plan, known.candidate, bias);
  const auto& places = known.places;
  std::vector<double> reach(places.size());
  // By node, root first: the probability that its children so far have left.
  std::vector<double> left(places.size() + 1, 1.0);
  for (std::size_t node = 0; node < places.size(); ++node) {
    const std::int32_t parent = proposal.tree.parents()[node];
    const double above = parent == token_tree::root ? 1.0 : reach[static_cast<std::size_t>(parent)];
    const double right = bias.at_least(tables_[known.candidate].probability(places[node]));
    double& rest = left[static_cast<std::size_t>(parent + 1)];
    reach[node] = above * rest * right;
    rest *= 1.0 - right;
  }
  return reach;
}

/// The probability of each node of a plan, level by level. The nodes of a level have equal parts of the
/// level's probability.
std::vector<double> draft_controller::reach_by_level(const draft_plan& plan, std::uint32_t candidate,
                                                     const request_bias& bias) const {
  const std::uint32_t width = plan.width();
  std::vector<double> reach;
  for (const double level : reach_of_levels(tables_of_plans_[candidate], bias, plan.levels))
    reach.insert(reach.end(), width, level / width);
  return reach;
}

/// The probability that each level is reached, without signals. A level that was never tried gets the
/// estimate of the level above it.
std::vector<double> draft_controller::reach_of_levels(const acceptance_table& table, const request_bias& bias,
                                                      std::uint32_t num_levels) const {
  std::vector<double> reach;
  double above = 1.0, probability = 0.5;
  for (std::uint32_t level = 0; level < num_levels; ++level) {
    probability = table.probability(place_of_level(level), probability);
    above *= bias.at_least(probability);
    reach.push_back(above);
  }
  return reach;
}

} // namespace paceline::speculation
