#pragma once

#include "runtime/base/pass_time.hpp"

#include <array>
#include <cstdint>
#include <span>

namespace paceline::speculation {

/// V(T): the time of a target pass over T rows, relative to a pass over one row. It is measured when the
/// model is loaded (`calibrate`) and then corrected by the passes that run. Two quantities are estimated
/// separately: the current speed of the machine (updated quickly, by every pass) and the shape of the curve
/// (updated slowly, for each number of rows). If no pass over T rows has run for some time, V(T) returns to
/// the ratio measured at load. Numbers of rows that were never measured are interpolated linearly between
/// their neighbours, and extrapolated beyond the last one.
///
/// The estimator is a Kalman filter over logarithms of times, without covariances. The difference between a
/// measured and an expected time is attributed to the shape and to the machine in proportion to the
/// uncertainty of each. An outlier has less weight.
///
/// Not thread-safe.
class pass_cost {
 public:
  static constexpr std::uint32_t max_rows = 128; ///< the cost of larger passes is extrapolated

  pass_cost() noexcept { draw_curve(); }

  /// Sets the initial times, which must include one of a single row. Must be called before `observe`.
  void calibrate(std::span<const pass_time> measured) noexcept;
  /// A pass over `rows` >= 1 rows took `nanoseconds`. Ignored if there are more than `max_rows` rows.
  void observe(std::uint32_t rows, double nanoseconds) noexcept;

  /// V(rows), at least 1. Never falls with `rows`.
  double ratio(std::uint32_t rows) const noexcept;
  /// True if `rows` is within the sizes measured at load, if one of the last 4096 passes had `rows` rows, or
  /// if `rows` exceeds `max_rows`.
  bool known(std::uint32_t rows) const noexcept;
  /// Nanoseconds expected of a pass over `rows` rows; 0 before any time is known.
  double time(std::uint32_t rows) const noexcept { return scale_ * ratio(rows); }

 private:
  struct point {
    double ratio = 0;
    double variance = 0; ///< of its logarithm
    double at_load = 0;  ///< the ratio measured or interpolated at load; 0: none
    double drawn = 0;    ///< `ratio` when the curve was last drawn
    std::uint32_t num_seen = 0;
    std::uint64_t last_seen = 0;
  };
  struct estimate {
    double ratio = 0;
    double variance = 0; ///< of its logarithm
  };
  estimate of(const point& at) const noexcept;
  void draw_curve() noexcept;

  std::array<point, max_rows + 1> points_{}; ///< by number of rows; the ratio for one row is 1
  /// `ratio` for each number of rows, computed in advance because it is read often; updated when a point has
  /// moved.
  std::array<double, max_rows + 1> curve_;
  double scale_ = 0;          ///< current time of a pass over one row
  double scale_variance_ = 0; ///< of its logarithm
  std::uint64_t num_passes_ = 0;
};

} // namespace paceline::speculation
