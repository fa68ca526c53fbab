#pragma once

#include "runtime/model/feature_cells.hpp"

#include <cstddef>

namespace paceline::test {

/// Fills all cells of a pool with values in [-2, 2], whose period is 401 values.
inline void make_up(const model::feature_cells& features) {
  const std::size_t size = std::size_t{features.num_blocks} * features.block_size * features.width();
  for (std::size_t i = 0; i < size; ++i)
    features.values[i] = static_cast<float>(static_cast<int>(i * 7919 % 401) - 200) / 100;
}

} // namespace paceline::test
