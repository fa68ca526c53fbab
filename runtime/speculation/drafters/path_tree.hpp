#pragma once

#include "runtime/base/request.hpp"
#include "runtime/speculation/drafters/drafter.hpp"

#include <algorithm>
#include <cstdint>
#include <span>

namespace paceline::speculation {

/// Largest number of levels for the draft of `task`.
inline std::uint32_t chain_length(const draft_task& task) noexcept {
  return std::min(task.draft_length, token_tree::max_nodes);
}

/// Largest number of nodes for the draft of `task`.
inline std::uint32_t node_budget(const draft_task& task) noexcept {
  return std::min(std::max(task.max_nodes, task.draft_length), token_tree::max_nodes);
}

/// Number of output tokens of `task` that may be different in the session's next task.
inline std::size_t num_unsettled(const draft_task& task) noexcept {
  const std::size_t known = std::max<std::size_t>(task.settled().size(), task.prompt_length);
  return task.tokens.size() - std::min(task.tokens.size(), known);
}

/// Adds `tokens` as a path from the root; nodes that the tree already has are shared. Stops when the tree has
/// `budget` nodes. Returns the last node (`token_tree::root` if none was added).
inline std::int32_t add_path(token_tree& tree, std::span<const token_id> tokens, std::uint32_t budget) {
  std::int32_t node = token_tree::root;
  for (const token_id token : tokens) {
    const auto there = tree.child(node, token);
    if (!there && tree.size() >= budget) break;
    node = there ? *there : tree.add(token, node);
  }
  return node;
}

/// Appends one token from `from` to the chain `result`. For a greedy request it is the likeliest. Under a
/// rule that compares probabilities it is drawn with the drafter's noise and reported with its distribution.
/// Otherwise it is drawn with the target's noise, so that equal distributions give equal tokens.
token_id extend_chain(const draft_task& task, draft_distribution from, draft& result);

} // namespace paceline::speculation
