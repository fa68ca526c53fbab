#include "runtime/speculation/drafters/frequency_tree.hpp"

#include <algorithm>
#include <queue>

namespace paceline::speculation {

namespace {

/// A child that may be taken next: the continuations that start with its path, a range of the sorted list.
struct branch {
  double probability = 0;
  std::size_t begin = 0;
  std::size_t end = 0;
  std::uint32_t depth = 0; ///< of its token
  std::int32_t parent = token_tree::root;

  /// The order of the queue: the likelier branch first, then the one nearer to the root, then the lower
  /// token.
  friend bool operator<(const branch& a, const branch& b) noexcept {
    if (a.probability != b.probability) return a.probability < b.probability;
    if (a.depth != b.depth) return a.depth > b.depth;
    return a.begin > b.begin;
  }
};

} // namespace

scored_tree likely_tree(std::vector<std::vector<token_id>> sorted, double trust, const tree_bounds& bounds,
                        double min_probability) {
  scored_tree result;
  std::ranges::sort(sorted);
  std::priority_queue<branch> open;
  // Adds the children of the node whose continuations are sorted[begin, end): one for each token at `depth`.
  const auto expand = [&](std::size_t begin, std::size_t end, std::uint32_t depth, std::int32_t parent,
                          double probability) {
    if (depth >= bounds.depth) return;
    while (begin < end && sorted[begin].size() <= depth) ++begin; // continuations that end here come first
    for (std::size_t at = begin, next = begin; at < end; at = next) {
      while (next < end && sorted[next][depth] == sorted[at][depth]) ++next;
      const double share = static_cast<double>(next - at) / static_cast<double>(end - begin);
      const branch child{probability * share, at, next, depth, parent};
      if (child.probability < min_probability) continue;
      open.push(child);
    }
  };
  expand(0, sorted.size(), 0, token_tree::root, trust);
  while (!open.empty() && result.tree.size() < std::min(bounds.nodes, token_tree::max_nodes)) {
    const branch next = open.top();
    open.pop();
    const std::int32_t node = result.tree.add(sorted[next.begin][next.depth], next.parent);
    result.score += next.probability;
    result.signals.push_back(static_cast<std::uint8_t>(std::min(next.probability, 1.0) * 7.0));
    expand(next.begin, next.end, next.depth + 1, node, next.probability);
  }
  return result;
}

} // namespace paceline::speculation
