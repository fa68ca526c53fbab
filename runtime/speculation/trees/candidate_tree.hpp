#pragma once

#include "runtime/base/ids.hpp"
#include "runtime/sampling/pipeline.hpp"
#include "runtime/speculation/trees/token_tree.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace paceline::speculation {

/// A token that may become a node of a draft tree.
struct tree_candidate {
  token_id token;
  std::int32_t parent = token_tree::root; ///< index of a candidate, or `token_tree::root`
  std::uint32_t depth = 0;                ///< 0 for children of the root
  std::uint32_t rank = 0;                 ///< among its siblings, 0 = best
  /// Sum of share * ln(weight) over the nodes of the path from the root; for `share` see `add_children`.
  /// At most the confidence of the parent.
  double confidence = 0;
};

/// All tokens that a drafter considers in one round; it proposes some of them. The tree grows from the root
/// by complete sets of siblings, so parents precede children, and siblings are adjacent, best first.
class candidate_tree {
 public:
  /// Adds the children of `parent`, best first; weights above 1 count as 1. `share` multiplies the logarithms
  /// of their weights. Returns the index of the first child.
  std::int32_t add_children(std::int32_t parent, std::span<const sampling::ranked_token> children,
                            double share = 1);
  void clear() noexcept { nodes_.clear(); }

  std::size_t size() const noexcept { return nodes_.size(); }
  bool empty() const noexcept { return nodes_.empty(); }
  const tree_candidate& operator[](std::int32_t node) const noexcept {
    return nodes_[static_cast<std::size_t>(node)];
  }
  std::span<const tree_candidate> nodes() const noexcept { return nodes_; }
  double confidence(std::int32_t node) const noexcept {
    return node == token_tree::root ? 0 : (*this)[node].confidence;
  }
  /// Candidates of one depth, ascending. A level must be complete before the next one begins.
  std::vector<std::int32_t> level(std::uint32_t depth) const;
  /// The tokens from the root's child to `node`.
  std::vector<token_id> path_tokens(std::int32_t node) const;

 private:
  std::vector<tree_candidate> nodes_;
};

/// Indices of the `count` most confident of `nodes`, ascending; ties to the lower index. Confidence never
/// rises along a path, so the most confident nodes of a whole tree include their ancestors.
std::vector<std::int32_t> most_confident(const candidate_tree& candidates,
                                         std::span<const std::int32_t> nodes, std::size_t count);

/// The draft tree of the `chosen` candidates, which must be ascending and include their parents.
token_tree tree_of(const candidate_tree& candidates, std::span<const std::int32_t> chosen);

} // namespace paceline::speculation
