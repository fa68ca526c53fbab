#pragma once

#include "runtime/base/ids.hpp"
#include "runtime/model/model_config.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace paceline::model {

class transformer;

/// The facts about a target that are needed to read a head's config.
struct head_target {
  std::uint32_t num_layers = 0;
  std::uint32_t hidden_size = 0;
  std::uint32_t vocab_size = 0;
  float embedding_scale = 1; ///< factor of the embedding's rows
  architecture arch = architecture::llama;
};

head_target facts_of(const transformer& target);

/// Values that replace those of a head's config.json, for heads whose config is known to be wrong.
struct head_overrides {
  double rope_theta = 0;                  ///< 0: not replaced
  std::optional<bool> hidden_first = {};  ///< for EAGLE and MTP (eagle_config.hpp)
  std::optional<bool> predicts_next = {}; ///< for block drafters (dflash_config.hpp)
  std::vector<layer_index> taps;          ///< empty: not replaced
};

} // namespace paceline::model
