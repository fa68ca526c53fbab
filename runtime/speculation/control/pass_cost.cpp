#include "runtime/speculation/control/pass_cost.hpp"

#include <algorithm>

namespace paceline::speculation {

namespace {

/// Cost of one more row before any was seen. Low on purpose: what looks cheap is tried, and then measured.
constexpr double first_slope = 0.2;
constexpr double scale_rate = 0.15;    ///< share of a surprise that is taken as news of the machine
constexpr double least_rate = 0.03;    ///< share that is taken as news of the shape, once known
constexpr std::uint32_t num_fresh = 4; ///< passes after which a shape is known
constexpr double first_weight = 1.25;  ///< the first pass counts five times as much as the guess before it
constexpr double widest = 1.5;         ///< a pass slower or faster than this factor says no more than that
constexpr std::uint64_t lately = 512;
constexpr std::uint64_t memory = 4096; ///< passes after which a shape not seen since counts as unknown

} // namespace

bool pass_cost::known(std::uint32_t rows) const noexcept {
  return points_[rows].num_seen > 0 && num_passes_ - points_[rows].last_seen < memory;
}

bool pass_cost::seen_lately(std::uint32_t rows) const noexcept {
  if (rows > max_rows) return true;
  return points_[rows].num_seen > 1 && num_passes_ - points_[rows].last_seen < lately;
}

double pass_cost::between(std::uint32_t rows) const noexcept {
  std::uint32_t below = rows;
  while (below > 1 && !known(below)) --below;
  const double at_below = below == 1 ? 1.0 : points_[below].ratio;
  if (below == rows) return at_below;
  for (std::uint32_t above = rows + 1; above <= max_rows; ++above)
    if (known(above)) {
      const double share = static_cast<double>(rows - below) / (above - below);
      return at_below + share * (points_[above].ratio - at_below);
    }
  const double slope = below == 1 ? first_slope : (at_below - 1.0) / (below - 1);
  return at_below + slope * (rows - below);
}

double pass_cost::ratio(std::uint32_t rows) const noexcept {
  if (rows <= 1) return 1.0;
  if (rows <= max_rows) {
    double largest = 1.0; // measured points may cross by noise; more rows never cost less
    for (std::uint32_t below = 2; below < rows; ++below)
      if (known(below)) largest = std::max(largest, points_[below].ratio);
    return std::max(largest, between(rows));
  }
  const double end = ratio(max_rows);
  return end + (end - 1.0) / (max_rows - 1) * (rows - max_rows);
}

void pass_cost::observe(std::uint32_t rows, double nanoseconds) noexcept {
  if (rows == 0 || rows > max_rows || !(nanoseconds > 0)) return;
  ++num_passes_;
  if (scale_ == 0) scale_ = nanoseconds / ratio(rows);
  const double surprise = nanoseconds / time(rows);
  const double bounded = std::clamp(surprise, 1.0 / widest, widest);
  if (rows == 1) {
    points_[1].num_seen += 1;
    points_[1].last_seen = num_passes_;
    scale_ *= 1.0 + scale_rate * (bounded - 1.0);
    return;
  }
  point& at = points_[rows];
  if (!known(rows)) at = {.ratio = ratio(rows)};
  // While a shape is new all surprise is about the shape; later most of it is about the machine.
  const bool fresh = at.num_seen < num_fresh;
  const double rate = fresh ? 1.0 / (at.num_seen + first_weight) : least_rate;
  at.ratio = std::max(1.0, at.ratio * (1.0 + rate * ((fresh ? surprise : bounded) - 1.0)));
  ++at.num_seen;
  at.last_seen = num_passes_;
  if (!fresh) scale_ *= 1.0 + scale_rate * (1.0 - rate) * (bounded - 1.0);
}

} // namespace paceline::speculation
