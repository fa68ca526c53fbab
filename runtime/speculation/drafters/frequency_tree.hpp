#pragma once

#include "runtime/base/ids.hpp"
#include "runtime/speculation/trees/token_tree.hpp"
#include "runtime/speculation/trees/tree_shape.hpp"

#include <cstdint>
#include <vector>

namespace paceline::speculation {

/// A tree of likely continuations with its expected number of accepted tokens.
struct scored_tree {
  token_tree tree;
  std::vector<std::uint8_t> signals; ///< `draft::signals`: the path probability times 7, rounded down
  double score = 0;                  ///< sum of the nodes' path probabilities
};

/// The most likely paths through `continuations`, by count (SuffixDecoding, section 4.2). `trust` is the
/// probability that the true continuation is among `continuations`. A child's path probability is its
/// parent's (`trust` for the root) times the child's share of the continuations that go on after the parent.
/// Nodes are added in descending path probability, so a parent precedes its children. Paths less likely than
/// `min_probability` are omitted.
scored_tree likely_tree(std::vector<std::vector<token_id>> continuations, double trust,
                        const tree_bounds& bounds, double min_probability = 0);

} // namespace paceline::speculation
