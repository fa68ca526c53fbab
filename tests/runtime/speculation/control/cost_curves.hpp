#pragma once

#include "runtime/speculation/control/pass_cost.hpp"

#include <cstdint>

namespace paceline::speculation {

/// A curve that costs `slope` a row, well known up to 40 rows.
inline pass_cost straight(double slope) {
  pass_cost cost;
  for (int i = 0; i < 300; ++i)
    for (std::uint32_t rows = 1; rows <= 40; ++rows) cost.observe(rows, 1e6 * (1 + slope * (rows - 1)));
  return cost;
}

} // namespace paceline::speculation
