#pragma once

#include "runtime/base/ids.hpp"
#include "runtime/speculation/trees/token_tree.hpp"
#include "runtime/speculation/trees/tree_shape.hpp"

#include <cstdint>
#include <vector>

namespace paceline::speculation {

/// A tree of likely continuations and how many tokens it is expected to get right.
struct scored_tree {
  token_tree tree;
  std::vector<std::uint8_t> signals; ///< `draft::signals`: a node's path probability in sevenths
  double score = 0;                  ///< sum of its nodes' path probabilities
};

/// The most likely paths through `continuations`, by count (SuffixDecoding, section 4.2): a node's path
/// probability is the product, from the root, of the shares of continuations that went its way; nodes are
/// taken in descending path probability, so that a parent comes before its children. `trust` is the
/// probability that the continuation is among them at all; paths less likely than `min_probability` are left
/// out.
scored_tree likely_tree(std::vector<std::vector<token_id>> continuations, double trust,
                        const tree_bounds& bounds, double min_probability = 0);

} // namespace paceline::speculation
