#pragma once

#include "runtime/speculation/control/pass_cost.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace paceline::speculation {

/// Which draft tokens of a batch are worth a row of the target's pass.
///
/// A node that is reached with probability `reach` (its whole path is right) adds `reach` tokens to what the
/// pass commits and one row to what it costs. Of all sets of nodes, over all requests of the pass, the one
/// with the most expected tokens per time consists of the nodes of highest reach: V(T) depends on their
/// number only, and a parent's reach is never below its children's, so every such set is closed under
/// ancestors. With many requests, or rows that cost a lot, it is empty: that is plain decoding.
struct node_choice {
  std::vector<std::vector<bool>> keep; ///< [lane][node]
  std::uint32_t num_nodes = 0;
  double tokens = 0; ///< expected of the pass, one a lane included
  double cost = 0;   ///< V(rows) / V(1) of the pass, and drafting
};

/// `reach[lane][node]`: probabilities that do not grow from a parent to its child, parents first. `num_rows`:
/// of the pass without any draft token. `margin`: by how much, as a share, drafting must be better than not
/// drafting. `drafting`: what the round takes beside the pass, in passes over one row, whatever is chosen.
node_choice choose_nodes(std::span<const std::vector<double>> reach, std::uint32_t num_rows,
                         const pass_cost& cost, double margin, double drafting = 0);

} // namespace paceline::speculation
