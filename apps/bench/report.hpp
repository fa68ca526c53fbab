#pragma once

#include <boost/json/object.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace paceline::apps::bench {

inline double seconds(std::chrono::nanoseconds d) { return std::chrono::duration<double>(d).count(); }

/// Statistics of repeated measurements. Shared machines have slow moments, so the median is the result and
/// the extremes are also shown.
struct summary {
  double median = 0;
  double least = 0;
  double most = 0;
  double deviation = 0; ///< median absolute deviation from the median
  std::size_t count = 0;
  /// 95 % confidence interval of the median, from order statistics; minimum and maximum if there are fewer
  /// than six values.
  double interval_from = 0;
  double interval_to = 0;
};

/// Statistics of `values`, in any order, at least one.
summary summarise(std::vector<double> values);

/// The percentile by nearest rank: the smallest value v in `values` such that at least the fraction `share`
/// (0 to 1) of `values` are less than or equal to v. There must be at least one value.
double percentile(std::vector<double> values, double share);

boost::json::object to_json(const summary& s);

/// Bounds of the share (0 to 1) of the wall time in which a device was idle. While the host submits a step,
/// the device may be idle (`device::step_times::launching`): `most` counts this time as idle, `least` as
/// busy.
struct idle_share {
  double least = 0;
  double most = 0;
};

idle_share idle_share_of(double busy_seconds, double launching_seconds, double wall_seconds);

boost::json::object to_json(const idle_share& share);

/// The origin of a figure: processor, cores, load, instruction set of the CPU kernels, version, commit, time,
/// seed, and the command line that repeats the measurement.
boost::json::object provenance(const std::string& command_line, std::uint64_t seed);

/// A table with a header line. The first column is left-aligned, all others are right-aligned.
class table {
 public:
  explicit table(std::vector<std::string> head);
  void add(std::vector<std::string> row);
  /// Prints to standard output.
  void print() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

/// `value` with `decimals` digits after the decimal point.
std::string fixed(double value, int decimals);

/// Prints `results` with their provenance as one line of JSON.
void print_json(const std::string& bench, const std::string& command_line, std::uint64_t seed,
                boost::json::object results);

} // namespace paceline::apps::bench
