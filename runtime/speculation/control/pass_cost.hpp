#pragma once

#include <array>
#include <cstdint>

namespace paceline::speculation {

/// V(T) of the literature: what a target pass over T rows costs beside one over a single row, learnt from the
/// passes as they run. Two things are told apart: how fast the machine is in these minutes (followed quickly,
/// from every pass) and the shape of the curve (followed slowly, per number of rows). Shapes nobody has seen
/// lie between their neighbours, beyond the last one on a straight line.
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

  /// A pass over `rows` >= 1 rows took `nanoseconds`.
  void observe(std::uint32_t rows, double nanoseconds) noexcept;

  /// V(rows) / V(1), at least 1 and never falling with `rows`.
  double ratio(std::uint32_t rows) const noexcept;
  /// Whether a pass over so many rows ran lately.
  bool seen_lately(std::uint32_t rows) const noexcept;
  /// The cost if the curve had steps: sizes not seen lately cost no more than the next smaller one that was,
  /// up to the largest one that was.
  pass_cost hopeful() const noexcept;
  /// Number of passes since the last one over that many rows; since the first pass if there was none.
  std::uint64_t age(std::uint32_t rows) const noexcept {
    return rows > max_rows ? 0 : num_passes_ - points_[rows].last_seen;
  }
  /// Nanoseconds expected of a pass over `rows` rows; 0 before the first one was observed.
  double time(std::uint32_t rows) const noexcept { return scale_ * ratio(rows); }

 private:
  struct point {
    double ratio = 0;
    double variance = 0; ///< of its logarithm
    std::uint32_t num_seen = 0;
    std::uint64_t last_seen = 0;
  };
  bool known(std::uint32_t rows) const noexcept;
  void draw_curve() noexcept;

  std::array<point, max_rows + 1> points_{}; ///< by number of rows; the ratio for one row is 1
  std::array<double, max_rows + 1>
      curve_;        ///< `ratio` for each number of rows, computed after each pass because it is read often
  double scale_ = 0; ///< current time of a pass over one row
  double scale_variance_ = 0; ///< of its logarithm
  std::uint64_t num_passes_ = 0;
};

} // namespace paceline::speculation
