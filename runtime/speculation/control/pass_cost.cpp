#include "runtime/speculation/control/pass_cost.hpp"

#include <algorithm>
#include <cmath>

namespace paceline::speculation {

namespace {

/// The cost of one more row before any pass was observed. It is low on purpose: if drafts look cheap they are
/// tried, and then the cost is measured.
constexpr double first_slope = 0.2;
// Variances of logarithms.
/// Scatter of passes of the same shape, within minutes in which nothing else changes.
constexpr double of_a_pass = 0.02;
constexpr double of_the_machine = 1e-3;   ///< change of the machine from pass to pass
constexpr double of_a_shape = 5e-6;       ///< change of a shape from pass to pass
constexpr double of_a_guess = 0.25;       ///< of the guess for a shape that was never seen
constexpr double of_a_measurement = 1e-3; ///< of a shape measured when the model was loaded
constexpr double since_load = 4e-3;       ///< change of such a shape since then
/// Passes after which most of the observations of a shape are forgotten.
constexpr double shape_memory = 1024;
/// A measurement that deviates by more standard deviations counts as deviating by this many.
constexpr double outlier = 2.0;
constexpr std::uint64_t passes_remembered =
    4096; ///< passes after which a shape not seen since counts as unknown
// Drawing the curve takes a microsecond. That is as much as a round of eight requests may spend on
// scheduling.
constexpr double worth_drawing = 1e-3; ///< relative change of a point from which the curve is drawn again
/// Passes after which it is drawn again in any case, because points age.
constexpr std::uint64_t drawn_at_least = 64;

} // namespace

bool pass_cost::known(std::uint32_t rows) const noexcept {
  if (rows > max_rows) return true;
  const point& at = points_[rows];
  return at.at_load > 0 || (at.num_seen > 0 && num_passes_ - at.last_seen < passes_remembered);
}

/// What is known of a size now. For a size that has not run for a while, this is what was measured when the
/// model was loaded.
pass_cost::estimate pass_cost::of(const point& at) const noexcept {
  const double age = static_cast<double>(num_passes_ - at.last_seen);
  if (at.at_load == 0) return {at.ratio, at.variance + of_a_shape * age};
  if (at.num_seen == 0) return {at.at_load, at.variance};
  const double kept = std::exp(-age / shape_memory);
  return {at.at_load * std::pow(at.ratio / at.at_load, kept),
          at.variance * kept * kept + since_load * (1 - kept * kept)};
}

void pass_cost::calibrate(std::span<const pass_time> measured) noexcept {
  for (const auto& [rows, nanoseconds] : measured)
    if (rows == 1) scale_ = nanoseconds;
  if (scale_ == 0) return;
  scale_variance_ = of_a_pass;
  std::uint32_t most = 1;
  for (const auto& [rows, nanoseconds] : measured) {
    if (rows == 0 || rows > max_rows) continue;
    const double ratio = std::max(1.0, nanoseconds / scale_);
    points_[rows] = {.ratio = ratio, .variance = rows == 1 ? 0.0 : of_a_measurement, .at_load = ratio};
    most = std::max(most, rows);
  }
  draw_curve();
  for (std::uint32_t rows = 2; rows < most; ++rows) // the sizes between the measured ones
    if (!known(rows))
      points_[rows] = {.ratio = curve_[rows], .variance = since_load, .at_load = curve_[rows]};
}

/// Draws the curve through the known points. More rows never cost less, but noise can make the points fall.
/// Such neighbours are averaged, weighted by their precision (pool adjacent violators). The curve has
/// straight lines between the points and after the last one.
void pass_cost::draw_curve() noexcept {
  struct level {
    std::uint32_t first, last; ///< rows
    double ratio, weight;
  };
  std::array<level, max_rows + 1> levels;
  std::size_t num_levels = 1;
  levels[0] = {1, 1, 1.0, 1e12};
  points_[1].drawn = 1.0;
  for (std::uint32_t rows = 2; rows <= max_rows; ++rows) {
    if (!known(rows)) continue;
    const estimate here = of(points_[rows]);
    points_[rows].drawn = points_[rows].ratio;
    level next{rows, rows, here.ratio, 1 / here.variance};
    for (; levels[num_levels - 1].ratio >= next.ratio; --num_levels) {
      const level& fallen = levels[num_levels - 1];
      if (num_levels == 1) break;
      next.ratio = (next.ratio * next.weight + fallen.ratio * fallen.weight) / (next.weight + fallen.weight);
      next.weight += fallen.weight;
      next.first = fallen.first;
    }
    next.ratio = std::max(next.ratio, 1.0);
    levels[num_levels++] = next;
  }
  curve_[0] = 1.0;
  for (std::size_t l = 0; l < num_levels; ++l) {
    const level& here = levels[l];
    std::fill(curve_.begin() + here.first, curve_.begin() + here.last + 1, here.ratio);
    const std::uint32_t end = l + 1 < num_levels ? levels[l + 1].first : max_rows + 1;
    double slope = here.last == 1 ? first_slope : (here.ratio - 1.0) / (here.last - 1);
    if (l + 1 < num_levels) slope = (levels[l + 1].ratio - here.ratio) / (end - here.last);
    for (std::uint32_t rows = here.last + 1; rows < end; ++rows)
      curve_[rows] = here.ratio + slope * (rows - here.last);
  }
}

double pass_cost::ratio(std::uint32_t rows) const noexcept {
  if (rows <= max_rows) return curve_[rows];
  return curve_[max_rows] + (curve_[max_rows] - 1.0) / (max_rows - 1) * (rows - max_rows);
}

void pass_cost::observe(std::uint32_t rows, double nanoseconds) noexcept {
  if (rows == 0 || rows > max_rows || !(nanoseconds > 0)) return;
  ++num_passes_;
  point& at = points_[rows];
  if (!known(rows))
    at = {.ratio = ratio(rows), .variance = rows == 1 ? 0.0 : of_a_guess, .last_seen = num_passes_};
  if (rows > 1) {
    const estimate before = of(at);
    at.ratio = before.ratio, at.variance = before.variance;
  }
  if (scale_ == 0) {
    scale_ = nanoseconds / at.ratio;
    scale_variance_ = of_a_guess;
  }
  scale_variance_ += of_the_machine;
  const double variance = at.variance + scale_variance_ + of_a_pass;
  const double most = outlier * std::sqrt(variance);
  const double surprise = std::clamp(std::log(nanoseconds / time(rows)), -most, most) / variance;
  at.ratio = std::max(1.0, at.ratio * std::exp(at.variance * surprise));
  scale_ *= std::exp(scale_variance_ * surprise);
  at.variance -= at.variance * at.variance / variance;
  scale_variance_ -= scale_variance_ * scale_variance_ / variance;
  ++at.num_seen;
  at.last_seen = num_passes_;
  if (std::abs(at.ratio - at.drawn) > worth_drawing * at.drawn || num_passes_ % drawn_at_least == 0)
    draw_curve();
}

} // namespace paceline::speculation
