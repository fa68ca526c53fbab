#pragma once

#include "config/engine_options.hpp"
#include "runtime/base/expected.hpp"
#include "runtime/speculation/trees/candidate_tree.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

/// Which candidates a draft tree is made of. All functions are pure.
///
/// chain    the best token at each place.
/// static   a template, the same every round: nodes named by the ranks on their way (Medusa, Cai et al. 2024,
///          section 2.3.3: sparse trees).
/// dynamic  the `top_k` most confident nodes of a level get `top_k` children each; at the end the most
///          confident nodes of all levels are proposed (EAGLE-2, Li et al. 2024, section 4: expansion and
///          re-ranking; confidence = product of the drafter's probabilities on the path).
/// optimal  the tree of `nodes` nodes with the largest expected accepted length by the drafter's
/// probabilities
///          (OPT-Tree, Wang et al. 2024, section 3): the sum over nodes of their paths' probabilities, so the
///          most confident nodes of the whole tree. A node that is not among the most confident ones so far
///          cannot get descendants that are: only the others are expanded.
/// independent  `top_k` chains that share nothing but the root. Under rules that weigh probabilities each is
///          drawn by itself, so that two may begin with the same token (SpecInfer, Miao et al. 2024, section
///          4.3: several draws of one position, tried in turn).
namespace paceline::speculation {

/// Nodes of a static tree: path i goes by the children of these ranks. Parents and siblings of lower rank
/// stand before a node, so that any leading part is a tree too.
using tree_template = std::vector<std::vector<std::uint32_t>>;

struct tree_shape {
  config::tree_kind kind = config::tree_kind::chain;
  std::uint32_t top_k = 4;
  tree_template paths = {}; ///< static
};

struct tree_bounds {
  std::uint32_t depth = 0; ///< levels
  std::uint32_t nodes = 0; ///< at least `depth`
};

/// A candidate whose children are wanted: the drafter has to compute its row.
struct expansion {
  std::int32_t node = token_tree::root;
  std::uint32_t num_children = 0;

  friend bool operator==(const expansion&, const expansion&) = default;
};

/// Reads a template as configured: "0", "0.0", "1". Errors (invalid_argument) name the path that is not ranks
/// below 16, or breaks the order; at most 64 nodes.
expected<tree_template> parse_template(std::span<const std::string> paths);

/// `top_k` children of the root, half as many of each of those, and so on down to chains; level by level as
/// long as there are nodes left of `max_nodes`.
tree_template halving_template(std::uint32_t top_k, std::uint32_t depth, std::uint32_t max_nodes);

/// The candidates to expand once every level above `depth` is known, ascending; the root at depth 0. None:
/// the tree is complete.
std::vector<expansion> next_expansions(const tree_shape& shape, const candidate_tree& candidates,
                                       const tree_bounds& bounds, std::uint32_t depth);

/// The candidates that the draft consists of, ascending, each with its ancestors.
std::vector<std::int32_t> chosen_nodes(const tree_shape& shape, const candidate_tree& candidates,
                                       const tree_bounds& bounds);

/// For draft tokens that are drawn (rule `rejection`): what is drawn is proposed, so how many children a node
/// gets is decided before they are drawn, from `weights`, the falling probabilities below each of `wanted`
/// (one list a node). Levels share the nodes that are left; of a level, the places of the largest path
/// probability are taken as if each draw gave the likeliest token left. Sets the `num_children` of `wanted`.
void plan_draws(const tree_shape& shape, const candidate_tree& candidates, const tree_bounds& bounds,
                std::uint32_t depth, std::span<expansion> wanted,
                std::span<const std::vector<float>> weights);

} // namespace paceline::speculation
