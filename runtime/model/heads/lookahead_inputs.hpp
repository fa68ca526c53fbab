#pragma once

#include "runtime/base/expected.hpp"

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace paceline::model {

/// A node of a draft tree of parallel prompt decoding.
struct lookahead_node {
  std::vector<std::uint32_t> path; ///< ranks from the root; rank r of a level is its r-th likeliest token
  std::uint32_t num_rows = 0;      ///< look-ahead rows behind it

  friend bool operator==(const lookahead_node&, const lookahead_node&) = default;
};

/// What a drafter with trained look-ahead rows learnt: input vectors for rows of the target's own pass. Row j
/// (from 0) stands j + 1 positions behind a token and predicts the token one position further: PaSS (Monea et
/// al. 2023, section 3) calls the vectors look-ahead embeddings, parallel prompt decoding (Chen et al. 2024,
/// section 3) prompt tokens. Constant.
struct lookahead_inputs {
  std::uint32_t num_rows = 0;
  std::uint32_t width = 0;        ///< the target's hidden size
  std::vector<float> values = {}; ///< [num_rows][width]
  /// The trees to draft where the last round has given s levels, at [s - 1], parents before a node;
  /// empty: the file has none.
  std::vector<std::vector<lookahead_node>> trees = {};
};

inline constexpr std::uint32_t most_lookahead_rows = 63;

/// Reads the directory of a drafter of kind `pass` (tensor "lookahead.weight") or `ppd` (the published PEFT
/// adapter: adapter_config.json and tensor "prompt_embeddings", beside them optionally sparse_trees.json) for
/// a target with hidden states of `width` values. docs/drafters.md describes both layouts. What does not fit
/// is refused by file, field or tensor, and both values.
expected<lookahead_inputs> load_lookahead_inputs(const std::string& kind,
                                                 const std::filesystem::path& directory, std::uint32_t width);

} // namespace paceline::model
