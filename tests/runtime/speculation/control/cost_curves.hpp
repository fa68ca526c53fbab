#pragma once

#include "runtime/speculation/control/pass_cost.hpp"

#include <cstdint>
#include <random>
#include <vector>

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

/// What is measured of `shape` when a model is loaded: times of passes that take `pass_ns` over one row.
template <class Shape>
std::vector<pass_time> timed_at_load(Shape shape, double pass_ns, std::mt19937_64& noise) {
  std::lognormal_distribution<double> scatter(0.0, 0.02);
  std::vector<pass_time> times;
  for (const std::uint32_t rows : {1U, 2U, 3U, 4U, 5U, 6U, 7U, 8U, 9U, 10U, 12U, 14U, 16U, 24U, 32U, 64U})
    times.push_back({rows, shape(rows) * pass_ns * scatter(noise)});
  return times;
}

} // namespace paceline::speculation
