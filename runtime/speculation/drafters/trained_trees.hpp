#pragma once

#include "config/engine_options.hpp"
#include "runtime/base/expected.hpp"
#include "runtime/model/heads/lookahead_inputs.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace paceline::speculation {

/// The trees of a drafter with trained look-ahead rows: trees[s - 1] is used if the rows of the last round
/// gave tokens for s levels.
using trained_trees = std::vector<std::vector<model::lookahead_node>>;

/// Number of look-ahead rows after the node at `path` if no file gives it: `num_rows` minus the sum of the
/// ranks in `path`, so that likelier nodes get more rows.
std::uint32_t rows_behind(std::span<const std::uint32_t> path, std::uint32_t num_rows) noexcept;

/// The trees that `options` ask for: a chain; a template (`tree_paths`); the trees of `inputs`; or, if
/// `inputs` has none, the halving template (tree_shape.hpp) of `tree_top_k` children of the root. Error:
/// invalid_argument if drafters of this kind cannot draft such trees, or if `tree_paths` is malformed.
expected<trained_trees> trees_for(const config::drafter_options& options,
                                  const model::lookahead_inputs& inputs);

} // namespace paceline::speculation
