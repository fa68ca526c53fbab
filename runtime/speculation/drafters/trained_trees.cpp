#include "runtime/speculation/drafters/trained_trees.hpp"

#include "runtime/speculation/drafters/registry.hpp"
#include "runtime/speculation/trees/tree_shape.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace paceline::speculation {

namespace {

/// For each s, the nodes of a template that have at most s levels.
trained_trees trees_of(const tree_template& paths, std::uint32_t num_rows) {
  trained_trees trees(num_rows);
  for (std::uint32_t state = 1; state <= num_rows; ++state)
    for (const auto& path : paths)
      if (path.size() <= state) trees[state - 1].push_back({path, rows_behind(path, num_rows)});
  return trees;
}

} // namespace

std::uint32_t rows_behind(std::span<const std::uint32_t> path, std::uint32_t num_rows) noexcept {
  const std::uint32_t ranks = std::accumulate(path.begin(), path.end(), 0U);
  return num_rows - std::min(num_rows, ranks);
}

expected<trained_trees> trees_for(const config::drafter_options& options,
                                  const model::lookahead_inputs& inputs) {
  if (options.tree == config::tree_kind::chain)
    return trees_of(halving_template(1, inputs.num_rows, inputs.num_rows), inputs.num_rows);
  if (options.kind == "pass") return bad_option(options, "kind pass drafts chains");
  if (options.tree != config::tree_kind::fixed)
    return bad_option(options, "kind " + options.kind + " drafts chains and static trees");
  if (!options.tree_paths.empty()) {
    auto paths = parse_template(options.tree_paths);
    if (!paths) return std::move(paths).error();
    return trees_of(*paths, inputs.num_rows);
  }
  if (!inputs.trees.empty()) return inputs.trees;
  return trees_of(halving_template(options.tree_top_k, inputs.num_rows, options.max_tree_nodes),
                  inputs.num_rows);
}

} // namespace paceline::speculation
