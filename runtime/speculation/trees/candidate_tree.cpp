#include "runtime/speculation/trees/candidate_tree.hpp"

#include "runtime/base/check.hpp"
#include "runtime/base/portable_math.hpp"

#include <algorithm>
#include <limits>

namespace paceline::speculation {

namespace {

/// A weight of 0 is a rounding error, because the token was proposed.
double log_weight(float weight) {
  const auto bounded = static_cast<double>(std::clamp(weight, std::numeric_limits<float>::min(), 1.0F));
  return std::min(portable_log(bounded), 0.0);
}

} // namespace

std::int32_t candidate_tree::add_children(std::int32_t parent,
                                          std::span<const sampling::ranked_token> children, double share) {
  const auto first = static_cast<std::int32_t>(nodes_.size());
  PACELINE_CHECK(parent >= token_tree::root && parent < first, "parent " + std::to_string(parent));
  const std::uint32_t depth = parent == token_tree::root ? 0 : (*this)[parent].depth + 1;
  PACELINE_CHECK(nodes_.empty() || nodes_.back().depth <= depth, "a level was left before it was complete");
  const double above = confidence(parent);
  for (std::size_t rank = 0; rank < children.size(); ++rank)
    nodes_.push_back({.token = children[rank].token,
                      .parent = parent,
                      .depth = depth,
                      .rank = static_cast<std::uint32_t>(rank),
                      .confidence = above + share * log_weight(children[rank].weight)});
  return first;
}

std::vector<std::int32_t> candidate_tree::level(std::uint32_t depth) const {
  std::vector<std::int32_t> found;
  for (std::size_t node = nodes_.size(); node-- > 0 && nodes_[node].depth >= depth;)
    if (nodes_[node].depth == depth) found.push_back(static_cast<std::int32_t>(node));
  std::reverse(found.begin(), found.end());
  return found;
}

std::vector<token_id> candidate_tree::path_tokens(std::int32_t node) const {
  std::vector<token_id> path;
  for (std::int32_t at = node; at != token_tree::root; at = (*this)[at].parent)
    path.push_back((*this)[at].token);
  std::reverse(path.begin(), path.end());
  return path;
}

std::vector<std::int32_t> most_confident(const candidate_tree& candidates,
                                         std::span<const std::int32_t> nodes, std::size_t count) {
  std::vector<std::int32_t> best(nodes.begin(), nodes.end());
  std::stable_sort(best.begin(), best.end(), [&](std::int32_t a, std::int32_t b) {
    return candidates.confidence(a) > candidates.confidence(b);
  });
  if (best.size() > count) best.resize(count);
  std::sort(best.begin(), best.end());
  return best;
}

token_tree tree_of(const candidate_tree& candidates, std::span<const std::int32_t> chosen) {
  token_tree tree;
  for (const std::int32_t node : chosen) {
    std::int32_t parent = token_tree::root;
    if (const std::int32_t above = candidates[node].parent; above != token_tree::root) {
      const auto place = std::lower_bound(chosen.begin(), chosen.end(), above);
      PACELINE_CHECK(place != chosen.end() && *place == above, "a chosen node's parent is missing");
      parent = static_cast<std::int32_t>(place - chosen.begin());
    }
    tree.add(candidates[node].token, parent);
  }
  return tree;
}

} // namespace paceline::speculation
