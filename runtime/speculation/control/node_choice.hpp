#pragma once

#include "runtime/speculation/control/pass_cost.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace paceline::speculation {

/// A pass as it is without draft tokens.
struct pass_load {
  std::uint32_t num_requests = 1; ///< that get a token of it
  std::uint32_t num_rows = 1; ///< at least `num_requests`; the others belong to prompts, and commit nothing
  double drafting = 0; ///< what the round takes beside the pass, in passes over one row, whatever is chosen
};

/// Which draft tokens of a batch are worth a row of the target's pass.
///
/// A node that is reached with probability `reach` (its whole path is right) adds `reach` tokens to what the
/// pass commits and one row to what it costs. Of all sets of nodes, over all requests of the pass, the one
/// with the most expected tokens per time consists of the nodes of highest reach: V(T) depends on their
/// number only, and a parent's reach is never below its children's, so every such set is closed under
/// ancestors. With many requests, or rows that cost a lot, it is empty: that is plain decoding.
///
/// Rows of prompts are left out of the time: they are owed whatever is drafted, and beside them any token
/// would look cheap, though its row delays the prompts and everyone behind them. Their part in what a further
/// row costs stays.
struct node_choice {
  std::vector<std::vector<bool>> keep; ///< [request][node]
  std::uint32_t num_nodes = 0;
  double tokens = 0; ///< expected of the pass, one a request included
  double cost = 0;   ///< V / V(1) of the pass without rows of prompts, and drafting
};

/// `reach[request][node]`: probabilities that do not grow from a parent to its child, parents first, of some
/// of the pass's requests. `margin`: by how much, as a share, drafting must be better than not drafting.
node_choice choose_nodes(std::span<const std::vector<double>> reach, const pass_load& load,
                         const pass_cost& cost, double margin);

} // namespace paceline::speculation
