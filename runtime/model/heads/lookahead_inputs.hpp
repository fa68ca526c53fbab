#pragma once

#include "runtime/base/expected.hpp"

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace paceline::model {

/// A node of a draft tree of parallel prompt decoding.
struct lookahead_node {
  /// Ranks of the tokens from the root to this node. Rank 0 is the likeliest token of its level.
  std::vector<std::uint32_t> path;
  std::uint32_t num_rows = 0; ///< number of look-ahead rows after it

  friend bool operator==(const lookahead_node&, const lookahead_node&) = default;
};

/// The trained input vectors of a drafter with look-ahead rows, which are additional rows in the target's own
/// pass. Row j (from 0) is j + 1 positions after a token and predicts the token at the position after its
/// own. PaSS (Monea et al. 2023, arXiv:2311.13581, section 3) calls the vectors look-ahead embeddings.
/// Parallel prompt decoding (Chen et al. 2024, arXiv:2405.18628, section 3) calls them prompt tokens.
/// Constant.
struct lookahead_inputs {
  std::uint32_t num_rows = 0;
  std::uint32_t width = 0;        ///< the target's hidden size
  std::vector<float> values = {}; ///< [num_rows][width]
  /// trees[s - 1] is the tree to draft if the look-ahead rows of the last round predicted s levels. Parents
  /// come before their children. Empty: the file has no trees.
  std::vector<std::vector<lookahead_node>> trees = {};
};

inline constexpr std::uint32_t most_lookahead_rows = 63;

/// Reads the directory of a drafter of kind `pass` (tensor "lookahead.weight") or `ppd` (the published PEFT
/// adapter: adapter_config.json, tensor "prompt_embeddings" and, optionally, sparse_trees.json) for a target
/// with hidden states of `width` values. docs/drafters.md describes both layouts. Data that does not fit is
/// refused with an error that names file, field or tensor, and both values.
expected<lookahead_inputs> load_lookahead_inputs(const std::string& kind,
                                                 const std::filesystem::path& directory, std::uint32_t width);

} // namespace paceline::model
