#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace paceline::speculation {

/// How long a pass over so many rows took.
struct pass_time {
  std::uint32_t rows = 0;
  double nanoseconds = 0;
};

/// V(T) of the literature: what a target pass over T rows costs beside one over a single row. Measured when
/// the model is loaded (`calibrate`), then corrected by the passes as they run. Two things are told apart:
/// how fast the machine is in these minutes (followed quickly, from every pass) and the shape of the curve
/// (followed slowly, per number of rows). A size that has not run for a while returns to its measured ratio.
/// Sizes that were never measured lie between their neighbours, beyond the last one on a straight line.
///
/// A Kalman filter over logarithms of times, without covariances: a difference from the expected time is
/// attributed to the shape and to the machine in proportion to the uncertainty of each, and has less weight
/// if it is an outlier.
///
/// Not thread-safe.
class pass_cost {
 public:
  static constexpr std::uint32_t max_rows = 128; ///< larger passes are extrapolated by row

  pass_cost() noexcept { draw_curve(); }

  /// Starts from these times, among them one of a single row. Nothing was observed before.
  void calibrate(std::span<const pass_time> measured) noexcept;
  /// A pass over `rows` >= 1 rows took `nanoseconds`.
  void observe(std::uint32_t rows, double nanoseconds) noexcept;

  /// V(rows) / V(1), at least 1 and never falling with `rows`.
  double ratio(std::uint32_t rows) const noexcept;
  /// Whether the cost of so many rows was measured, at load or by a pass not too long ago.
  bool known(std::uint32_t rows) const noexcept;
  /// Passes since the last one over so many rows; since the first one of all if there was none.
  std::uint64_t age(std::uint32_t rows) const noexcept {
    return rows > max_rows ? 0 : num_passes_ - points_[rows].last_seen;
  }
  /// Nanoseconds expected of a pass over `rows` rows; 0 before the first one was observed.
  double time(std::uint32_t rows) const noexcept { return scale_ * ratio(rows); }

 private:
  struct point {
    double ratio = 0;
    double variance = 0; ///< of its logarithm
    double at_load = 0;  ///< the ratio measured then; 0: it was not
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
  std::array<double, max_rows + 1>
      curve_;        ///< `ratio` for each number of rows, computed after each pass because it is read often
  double scale_ = 0; ///< current time of a pass over one row
  double scale_variance_ = 0; ///< of its logarithm
  std::uint64_t num_passes_ = 0;
};

} // namespace paceline::speculation
