#pragma once

#include "runtime/speculation/control/pass_cost.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace paceline::speculation {

/// A pass before draft tokens are chosen for it.
struct pass_load {
  std::uint32_t num_requests = 1; ///< requests that get a token from it
  /// At least `num_requests`. Additional rows belong to prompts, or to the drafts of requests with a drafter
  /// other than `auto`. The choice counts no tokens for these rows.
  std::uint32_t num_rows = 1;
  double drafting = 0; ///< additional time of the round, in passes over one row, independent of the choice
};

/// Chooses the draft tokens of a batch that are worth a row of the target's pass.
///
/// A node with probability `reach` (that its whole path is right) adds `reach` tokens to what the pass
/// commits, and one row to its cost. V(T) depends only on the number of rows, so the set of nodes with the
/// most expected tokens per time, over all requests of the pass, has the nodes with the highest reach. It
/// contains the ancestors of its nodes, because a parent's reach is never below its children's. With many
/// requests, or expensive rows, this set is empty, which means plain decoding.
///
/// The time does not include the additional rows of `pass_load`, which are computed in any case. If it did,
/// every draft token would seem cheap beside a long prompt, although its row delays the prompt and all
/// waiting requests. But a draft token's row costs as much as one more row in the whole pass.
struct node_choice {
  std::vector<std::vector<bool>> keep; ///< [request][node]
  std::uint32_t num_nodes = 0;
  double tokens = 0; ///< expected tokens of the pass, with the one that each request gets in any case
  double cost = 0;   ///< V(num_rows + num_nodes) - (V(num_rows) - V(num_requests)) + `pass_load::drafting`
};

/// `reach[request][node]`: probabilities that do not increase from a parent to its child, parents first, for
/// some of the pass's requests. `margin`: the share by which drafting must be better than not drafting.
node_choice choose_nodes(std::span<const std::vector<double>> reach, const pass_load& load,
                         const pass_cost& cost, double margin);

} // namespace paceline::speculation
