#pragma once

#include "config/engine_options.hpp"
#include "runtime/base/expected.hpp"
#include "runtime/speculation/trees/candidate_tree.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

/// Selection of the candidates that form a draft tree. All functions are pure.
/// - chain: the best token at each position.
/// - static: a template, the same in every round; each node is given by the ranks on its path (Medusa,
///   Cai et al. 2024, section 2.3.3: sparse trees).
/// - dynamic: the `top_k` most confident nodes of a level get `top_k` children each; at the end the most
///   confident nodes of all levels are proposed (EAGLE-2, Li et al. 2024, section 4: expansion and
///   re-ranking; confidence = product of the drafter's probabilities on the path).
/// - optimal: the tree of `nodes` nodes with the largest expected accepted length by the drafter's
///   probabilities (OPT-Tree, Wang et al. 2024, section 3). This length is the sum of the path probabilities
///   of the nodes, so the most confident nodes of the whole tree are chosen. Only nodes that are among the
///   `nodes` most confident ones so far are expanded, because descendants of other nodes cannot be chosen.
/// - dart: like dynamic, but with other numbers of expanded nodes and of children, and with a smaller weight
///   for deeper levels (DART, arXiv:2601.19278). The confidence of a node is its parent's plus
///   (d + 1)^-0.7 * 0.9^d * ln(p + 1e-10). Here d is the depth of the node, from 0, and p is its share among
///   the 25 likeliest tokens (all of them, if there are fewer), so p does not depend on the size of the tree.
///   The published search also has an n-gram model, and does not expand tokens that end the text.
/// - independent: `top_k` chains that share only the root. Under rules that compare probabilities the chains
///   are drawn independently, so two of them may begin with the same token (SpecInfer, Miao et al. 2024,
///   section 4.3: several draws of one position, tried in turn).
namespace paceline::speculation {

/// The nodes of a static tree. Each is given by the ranks on its path from the root. A node comes after its
/// parent and after its siblings of lower rank, so every prefix of the list is a tree, too.
using tree_template = std::vector<std::vector<std::uint32_t>>;

struct tree_shape {
  config::tree_kind kind = config::tree_kind::chain;
  std::uint32_t top_k = 4;
  tree_template paths = {}; ///< for kind static only

  /// For kinds dynamic and dart: number of nodes expanded in a level, and number of children of each.
  std::uint32_t num_expanded() const noexcept { return kind == config::tree_kind::dart ? 20 : top_k; }
  std::uint32_t num_children() const noexcept { return kind == config::tree_kind::dart ? 25 : top_k; }
};

struct tree_bounds {
  std::uint32_t depth = 0; ///< largest number of levels
  std::uint32_t nodes = 0; ///< largest number of nodes; at least `depth`
};

/// Largest number of nodes of a tree within `bounds`.
std::uint32_t most_nodes(const tree_shape& shape, const tree_bounds& bounds);

/// Shape of the draft after each hypothesis of a beam search with `width` beams, for a drafter that otherwise
/// drafts chains: `width` nodes of each level get `width` children each, at most 16 (Leviathan et al. 2023,
/// appendix A.4), because all hypotheses after a step of the search may descend from one hypothesis.
tree_shape widened(std::uint32_t width);

/// Upper bound (at least `depth`) of the nodes that a drafter feeds to its network to grow a tree of `depth`
/// levels: the expanded nodes of all levels but the last, proposed or not. Each takes a cell of the drafter's
/// pool.
std::uint32_t most_expanded(const tree_shape& shape, std::uint32_t depth) noexcept;

/// A candidate whose children are needed: the drafter must compute its row.
struct expansion {
  std::int32_t node = token_tree::root;
  std::uint32_t num_children = 0;

  friend bool operator==(const expansion&, const expansion&) = default;
};

/// Parses a template as configured: "0", "0.0", "1". Error: invalid_argument if a path is not a list of ranks
/// below 16, occurs twice or precedes its parent or a sibling of lower rank, or if there are over 64 paths.
expected<tree_template> parse_template(std::span<const std::string> paths);

/// A template: the root has `top_k` children, each of them has half as many, and so on down to one child.
/// Nodes are added level by level up to `max_nodes`.
tree_template halving_template(std::uint32_t top_k, std::uint32_t depth, std::uint32_t max_nodes);

/// The candidates to expand once all levels above `depth` are known, ascending; at depth 0 the root. Empty if
/// the tree is complete.
std::vector<expansion> next_expansions(const tree_shape& shape, const candidate_tree& candidates,
                                       const tree_bounds& bounds, std::uint32_t depth);

/// Adds the children of candidate `parent`, best first, with the confidence that the shape gives them.
void add_children(const tree_shape& shape, candidate_tree& candidates, std::int32_t parent,
                  std::span<const sampling::ranked_token> children);

/// Converts the weights of ranked children from probabilities to the weights that the shape uses: for dart p
/// + 1e-10, where p is the child's share of the sum over the children; for other kinds the probability
/// itself.
void weigh_among_siblings(const tree_shape& shape, std::span<sampling::ranked_token> children);

/// The candidates that form the draft, ascending, each with its ancestors.
std::vector<std::int32_t> chosen_nodes(const tree_shape& shape, const candidate_tree& candidates,
                                       const tree_bounds& bounds);

/// For draft tokens that are drawn (rule `rejection`). All drawn tokens are proposed, so the number of
/// children of each node is decided before the draw. `weights[i]`: probabilities of the possible children of
/// wanted[i], in descending order. The nodes still left in `bounds` are divided equally among the remaining
/// levels. Within a level the children with the largest path probability are chosen, as if each draw gave the
/// likeliest remaining token. Sets `num_children` of `wanted` for kinds dynamic, optimal and dart; the other
/// kinds keep their numbers.
void plan_draws(const tree_shape& shape, const candidate_tree& candidates, const tree_bounds& bounds,
                std::uint32_t depth, std::span<expansion> wanted,
                std::span<const std::vector<float>> weights);

} // namespace paceline::speculation
