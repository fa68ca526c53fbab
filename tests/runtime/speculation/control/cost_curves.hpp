#pragma once

#include "runtime/speculation/control/pass_cost.hpp"

#include <cstdint>

namespace paceline::speculation {

/// The curve `shape(rows)`, well measured up to 64 rows.
template <class Shape>
pass_cost curve(Shape shape) {
  pass_cost cost;
  for (int i = 0; i < 300; ++i)
    for (std::uint32_t rows = 1; rows <= 64; ++rows) cost.observe(rows, 1e6 * shape(rows));
  return cost;
}

/// A curve with the cost `slope` for each further row.
inline pass_cost straight(double slope) {
  return curve([slope](std::uint32_t rows) { return 1 + slope * (rows - 1); });
}

} // namespace paceline::speculation
