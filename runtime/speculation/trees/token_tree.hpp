#pragma once

#include "runtime/base/ids.hpp"

#include <bit>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace paceline::speculation {

/// Draft tokens of one request and round, as a tree rooted in the last committed token, which is not a node.
/// A chain is a special case. Nodes are in topological order: parents precede children, and siblings are in
/// order of preference. At most 64 nodes, so that a node's ancestors fit into one machine word. Siblings may
/// have equal tokens, each with its own branch, if a position was drawn several times independently. Rule
/// `rejection` tries each of them, and rule `coupled` follows all whose token is the target's.
///
/// Invariant (`valid()`): the arrays are equally long; parents[i] < i, or `root`; depths[i] = depth of the
/// parent + 1, or 0 for children of the root; ancestors[i] has a bit for each node on the path from the root
/// to i, which is included.
class token_tree {
 public:
  static constexpr std::int32_t root = -1;
  static constexpr std::uint32_t max_nodes = 64;

  /// Adds a node under `parent` (an index or `root`) and returns its index. The tree must have fewer than
  /// `max_nodes` nodes.
  std::int32_t add(token_id token, std::int32_t parent);
  void clear();
  /// Keeps the first `num_nodes` nodes.
  void truncate(std::uint32_t num_nodes);

  std::uint32_t size() const noexcept { return static_cast<std::uint32_t>(tokens_.size()); }
  bool empty() const noexcept { return tokens_.empty(); }
  std::span<const token_id> tokens() const noexcept { return tokens_; }
  std::span<const std::int32_t> parents() const noexcept { return parents_; }
  std::span<const std::uint32_t> depths() const noexcept { return depths_; }
  std::span<const std::uint64_t> ancestors() const noexcept { return ancestors_; }

  /// True if node i's parent is i - 1 for every i.
  bool is_chain() const noexcept;
  /// The first child of `parent` whose token is `token`, if there is one.
  std::optional<std::int32_t> child(std::int32_t parent, token_id token) const noexcept;
  /// The children of `parent` (an index or `root`), in order of preference.
  std::vector<std::int32_t> children(std::int32_t parent) const;
  /// True if `node` (or the root) has no children.
  bool is_leaf(std::int32_t node) const noexcept;
  /// Node indices from the root's child down to `node`, `node` included.
  std::vector<std::int32_t> path_to(std::int32_t node) const;
  /// The tokens of the nodes in `path_to(node)`.
  std::vector<token_id> path_tokens(std::int32_t node) const;
  bool valid() const noexcept;

 private:
  std::vector<token_id> tokens_;
  std::vector<std::int32_t> parents_;
  std::vector<std::uint32_t> depths_;
  std::vector<std::uint64_t> ancestors_;
};

} // namespace paceline::speculation
