#pragma once

#include "runtime/speculation/control/pass_cost.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace paceline::speculation {

/// A pass without draft tokens.
struct pass_load {
  std::uint32_t num_requests = 1; ///< requests that get a token from it
  std::uint32_t num_rows = 1; ///< at least `num_requests`; the others belong to prompts and commit nothing
  double drafting = 0; ///< additional time of the round, in passes over one row, independent of the choice
};

/// Chooses the draft tokens of a batch that are worth a row of the target's pass.
///
/// A node with probability `reach` (that its whole path is right) adds `reach` tokens to what the pass
/// commits, and one row to its cost. Of all sets of nodes, over all requests of the pass, the one with the
/// most expected tokens per time consists of the nodes with the highest reach: V(T) depends only on their
/// number, and a parent's reach is never below its children's, so every such set is closed under ancestors.
/// With many requests, or expensive rows, this set is empty, which means plain decoding.
///
/// The time does not include the rows of prompts, which must be computed in any case. Compared with a time
/// that includes them every draft token would seem cheap, although its row delays the prompts and all waiting
/// requests. But the cost of an additional row is that of a pass which includes the prompt rows.
struct node_choice {
  std::vector<std::vector<bool>> keep; ///< [request][node]
  std::uint32_t num_nodes = 0;
  double tokens = 0; ///< expected tokens of the pass, one for each request included
  double cost = 0;   ///< V / V(1) of the pass without rows of prompts, plus drafting
};

/// `reach[request][node]`: probabilities that do not increase from a parent to its child, parents first, for
/// some of the pass's requests. `margin`: the share by which drafting must be better than not drafting.
node_choice choose_nodes(std::span<const std::vector<double>> reach, const pass_load& load,
                         const pass_cost& cost, double margin);

} // namespace paceline::speculation
