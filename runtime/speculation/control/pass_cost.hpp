#pragma once

#include <array>
#include <cstdint>

namespace paceline::speculation {

/// V(T) of the literature: what a target pass over T rows costs beside one over a single row, learnt from the
/// passes as they run. Two things are told apart: how fast the machine is in these minutes (followed quickly,
/// from every pass) and the shape of the curve (followed slowly, per number of rows). Shapes nobody has seen
/// lie between their neighbours, beyond the last one on a straight line.
///
/// Not thread-safe.
class pass_cost {
 public:
  static constexpr std::uint32_t max_rows = 128; ///< passes over more only cost by the row

  /// A pass over `rows` >= 1 rows took `nanoseconds`.
  void observe(std::uint32_t rows, double nanoseconds) noexcept;

  /// V(rows) / V(1), at least 1 and never falling with `rows`.
  double ratio(std::uint32_t rows) const noexcept;
  /// Whether a pass over so many rows ran lately.
  bool seen_lately(std::uint32_t rows) const noexcept;
  /// Nanoseconds expected of a pass over `rows` rows; 0 before the first one was observed.
  double time(std::uint32_t rows) const noexcept { return scale_ * ratio(rows); }

 private:
  struct point {
    double ratio = 0;
    std::uint32_t num_seen = 0;
    std::uint64_t last_seen = 0;
  };
  bool known(std::uint32_t rows) const noexcept;
  double between(std::uint32_t rows) const noexcept;

  std::array<point, max_rows + 1> points_{}; ///< by number of rows; the ratio of one row is 1
  double scale_ = 0;                         ///< of a pass over one row, now
  std::uint64_t num_passes_ = 0;
};

} // namespace paceline::speculation
