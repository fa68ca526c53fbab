#include "runtime/speculation/trees/tree_shape.hpp"

#include "runtime/base/check.hpp"
#include "runtime/base/portable_math.hpp"

#include <algorithm>
#include <charconv>
#include <numeric>

namespace paceline::speculation {

namespace {

using config::tree_kind;

constexpr std::uint32_t max_rank = 15;

std::vector<std::int32_t> all_nodes(const candidate_tree& candidates) {
  std::vector<std::int32_t> nodes(candidates.size());
  std::iota(nodes.begin(), nodes.end(), 0);
  return nodes;
}

std::vector<std::uint32_t> ranks_to(const candidate_tree& candidates, std::int32_t node) {
  std::vector<std::uint32_t> ranks;
  for (std::int32_t at = node; at != token_tree::root; at = candidates[at].parent)
    ranks.push_back(candidates[at].rank);
  std::reverse(ranks.begin(), ranks.end());
  return ranks;
}

/// The part of a template that fits the limits.
tree_template within(const tree_template& paths, const tree_bounds& bounds) {
  tree_template fitting;
  for (const auto& path : paths)
    if (path.size() <= bounds.depth && fitting.size() < bounds.nodes) fitting.push_back(path);
  return fitting;
}

/// The number of children that the template has below the path `ranks`.
std::uint32_t num_children(const tree_shape& shape, const tree_bounds& bounds,
                           const std::vector<std::uint32_t>& ranks) {
  std::uint32_t count = 0;
  for (const auto& path : within(shape.paths, bounds))
    if (path.size() == ranks.size() + 1 && std::equal(ranks.begin(), ranks.end(), path.begin()))
      count = std::max(count, path.back() + 1);
  return count;
}

/// Candidates of the last level that may be extended.
std::vector<std::int32_t> frontier(const tree_shape& shape, const candidate_tree& candidates,
                                   const tree_bounds& bounds, std::uint32_t depth) {
  if (depth == 0) return {token_tree::root};
  const std::vector<std::int32_t> last = candidates.level(depth - 1);
  switch (shape.kind) {
  case tree_kind::chain:
  case tree_kind::by_kind:
    return most_confident(candidates, last, 1);
  case tree_kind::independent:
    return last;
  case tree_kind::fixed:
    return last;
  case tree_kind::dynamic:
  case tree_kind::dart:
    return most_confident(candidates, last, shape.num_expanded());
  case tree_kind::optimal: {
    std::vector<std::int32_t> best = most_confident(candidates, all_nodes(candidates), bounds.nodes);
    std::erase_if(best, [&](std::int32_t node) { return candidates[node].depth + 1 != depth; });
    return best;
  }
  }
  fail_check("tree kind", __FILE__, __LINE__, "unknown kind");
}

/// The weight of the logarithm of a probability at a depth.
double weight_of_level(const tree_shape& shape, std::uint32_t depth) {
  if (shape.kind != tree_kind::dart) return 1;
  const double level = depth;
  return portable_exp(static_cast<float>(level * portable_log(0.9) - 0.7 * portable_log(level + 1)));
}

expected<std::vector<std::uint32_t>> parse_path(const std::string& text) {
  const error broken(errc::invalid_argument, "tree_paths: \"" + text +
                                                 "\" is not a list of ranks from 0 to " +
                                                 std::to_string(max_rank) + " such as 0.1.0");
  std::vector<std::uint32_t> path;
  const char* at = text.data();
  const char* const end = at + text.size();
  for (;;) {
    std::uint32_t rank = 0;
    const auto [next, failed] = std::from_chars(at, end, rank);
    if (failed != std::errc() || rank > max_rank || path.size() + 1 >= token_tree::max_nodes) return broken;
    path.push_back(rank);
    if (next == end) return path;
    if (*next != '.') return broken;
    at = next + 1;
  }
}

} // namespace

expected<tree_template> parse_template(std::span<const std::string> paths) {
  tree_template made;
  if (paths.size() > token_tree::max_nodes)
    return error{errc::invalid_argument,
                 "tree_paths: " + std::to_string(paths.size()) + " nodes, at most 64"};
  for (const std::string& text : paths) {
    auto path = parse_path(text);
    if (!path) return std::move(path).error();
    if (std::find(made.begin(), made.end(), *path) != made.end())
      return error{errc::invalid_argument, "tree_paths: \"" + text + "\" stands there twice"};
    const auto stands = [&](const std::vector<std::uint32_t>& other) {
      return std::find(made.begin(), made.end(), other) != made.end();
    };
    std::vector<std::uint32_t> elder = *path;
    if (elder.back() > 0 && (--elder.back(), !stands(elder)))
      return error{errc::invalid_argument,
                   "tree_paths: the sibling of lower rank of \"" + text + "\" must stand before it"};
    elder.pop_back();
    if (!elder.empty() && !stands(elder))
      return error{errc::invalid_argument, "tree_paths: the parent of \"" + text + "\" must stand before it"};
    made.push_back(*std::move(path));
  }
  return made;
}

tree_template halving_template(std::uint32_t top_k, std::uint32_t depth, std::uint32_t max_nodes) {
  tree_template made;
  std::vector<std::vector<std::uint32_t>> last{{}};
  for (std::uint32_t level = 0; level < depth; ++level) {
    std::vector<std::vector<std::uint32_t>> next;
    const std::uint32_t width = std::max(1U, level < 32 ? top_k >> level : 0U);
    for (const auto& parent : last)
      for (std::uint32_t rank = 0; rank < width; ++rank) {
        if (made.size() == max_nodes) return made;
        next.push_back(parent);
        next.back().push_back(rank);
        made.push_back(next.back());
      }
    last = std::move(next);
  }
  return made;
}

std::uint32_t most_nodes(const tree_shape& shape, const tree_bounds& bounds) {
  if (bounds.depth == 0) return 0;
  switch (shape.kind) {
  case tree_kind::chain:
  case tree_kind::by_kind:
    return bounds.depth;
  case tree_kind::independent:
    return std::clamp(bounds.nodes / bounds.depth, 1U, shape.top_k) * bounds.depth;
  case tree_kind::fixed:
    return std::min(bounds.nodes, static_cast<std::uint32_t>(std::ranges::count_if(
                                      shape.paths, [&](auto& path) { return path.size() <= bounds.depth; })));
  case tree_kind::dynamic:
  case tree_kind::dart: {
    const std::uint32_t first = shape.num_children();
    const std::uint32_t of_a_level = std::min(first, shape.num_expanded()) * first;
    return std::min(bounds.nodes, first + (bounds.depth - 1) * of_a_level);
  }
  case tree_kind::optimal: // the root alone may have all of them
    return bounds.nodes;
  }
  fail_check("tree kind", __FILE__, __LINE__, "unknown kind");
}

tree_shape widened(std::uint32_t width) {
  return {.kind = tree_kind::dynamic, .top_k = std::clamp(width, 1U, max_rank + 1)};
}

std::uint32_t most_expanded(const tree_shape& shape, std::uint32_t depth) noexcept {
  return std::max(depth, shape.num_expanded() * (depth - std::min(depth, 1U)));
}

std::vector<expansion> next_expansions(const tree_shape& shape, const candidate_tree& candidates,
                                       const tree_bounds& bounds, std::uint32_t depth) {
  std::vector<expansion> wanted;
  if (depth >= bounds.depth || bounds.nodes == 0) return wanted;
  for (const std::int32_t node : frontier(shape, candidates, bounds, depth)) {
    std::uint32_t count = 1;
    if (shape.kind == tree_kind::fixed) count = num_children(shape, bounds, ranks_to(candidates, node));
    if (shape.kind == tree_kind::dynamic) count = std::min(shape.num_children(), bounds.nodes);
    // Their shares of probability are relative to all of them.
    if (shape.kind == tree_kind::dart) count = shape.num_children();
    if (shape.kind == tree_kind::optimal) count = bounds.nodes;
    if (shape.kind == tree_kind::independent && depth == 0)
      count = std::clamp(bounds.nodes / bounds.depth, 1U, shape.top_k);
    if (count > 0) wanted.push_back({node, count});
  }
  return wanted;
}

void add_children(const tree_shape& shape, candidate_tree& candidates, std::int32_t parent,
                  std::span<const sampling::ranked_token> children) {
  const std::uint32_t depth = parent == token_tree::root ? 0 : candidates[parent].depth + 1;
  candidates.add_children(parent, children, weight_of_level(shape, depth));
}

void weigh_among_siblings(const tree_shape& shape, std::span<sampling::ranked_token> children) {
  if (shape.kind != tree_kind::dart) return;
  constexpr float least = 1e-10F;
  float total = 0;
  for (const sampling::ranked_token& child : children) total += child.weight;
  for (sampling::ranked_token& child : children)
    child.weight = (total > 0 ? child.weight / total : child.weight) + least;
}

std::vector<std::int32_t> chosen_nodes(const tree_shape& shape, const candidate_tree& candidates,
                                       const tree_bounds& bounds) {
  std::vector<std::int32_t> nodes = all_nodes(candidates);
  if (shape.kind != tree_kind::fixed) return most_confident(candidates, nodes, bounds.nodes);
  const tree_template paths = within(shape.paths, bounds);
  std::erase_if(nodes, [&](std::int32_t node) {
    return std::find(paths.begin(), paths.end(), ranks_to(candidates, node)) == paths.end();
  });
  return nodes;
}

void plan_draws(const tree_shape& shape, const candidate_tree& candidates, const tree_bounds& bounds,
                std::uint32_t depth, std::span<expansion> wanted,
                std::span<const std::vector<float>> weights) {
  PACELINE_CHECK(wanted.size() == weights.size() && depth < bounds.depth, "one list of weights a node");
  if (shape.kind != tree_kind::dynamic && shape.kind != tree_kind::optimal && shape.kind != tree_kind::dart)
    return;
  const std::uint32_t left =
      bounds.nodes - std::min<std::uint32_t>(bounds.nodes, static_cast<std::uint32_t>(candidates.size()));
  const std::uint32_t levels = bounds.depth - depth;
  struct place {
    double confidence;
    std::size_t owner;
  };
  std::vector<place> places;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const std::size_t count = std::min<std::size_t>(wanted[i].num_children, weights[i].size());
    for (std::size_t rank = 0; rank < count && weights[i][rank] > 0; ++rank)
      places.push_back(
          {candidates.confidence(wanted[i].node) +
               weight_of_level(shape, depth) * portable_log(static_cast<double>(weights[i][rank])),
           i});
    wanted[i].num_children = 0;
  }
  std::stable_sort(places.begin(), places.end(),
                   [](const place& a, const place& b) { return a.confidence > b.confidence; });
  places.resize(std::min<std::size_t>(places.size(), (left + levels - 1) / levels));
  for (const place& taken : places) ++wanted[taken.owner].num_children;
}

} // namespace paceline::speculation
