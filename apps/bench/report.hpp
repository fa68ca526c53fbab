#pragma once

#include <boost/json/object.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace paceline::apps::bench {

/// What repeated measurements of one thing gave. Shared machines have bad moments, so the middle counts and
/// the ends are shown.
struct summary {
  double median = 0;
  double least = 0;
  double most = 0;
  double deviation = 0; ///< median absolute deviation from the median
  std::size_t count = 0;
  /// 95 % interval of the median, from the order of the values alone; the whole range where they are fewer
  /// than six.
  double interval_from = 0;
  double interval_to = 0;
};

/// `values` in any order, at least one.
summary summarise(std::vector<double> values);

/// The value that `share` (0..1) of `values` do not exceed; `values` has at least one.
double percentile(std::vector<double> values, double share);

boost::json::object to_json(const summary& s);

/// Share of a time in which a device had nothing to do, by the device's own clock: between two bounds, for
/// nobody knows how long it waited for a step that the host was handing over.
struct idle_share {
  double least = 0;
  double most = 0;
};

idle_share idle_share_of(double busy_seconds, double launching_seconds, double wall_seconds);

boost::json::object to_json(const idle_share& share);

/// Where and from what a figure comes: processor, cores, load, kernel level, version, commit and the command
/// line that repeats it.
boost::json::object provenance(const std::string& command_line, std::uint64_t seed);

/// Columns of right-aligned text under a head line, the first column left-aligned.
class table {
 public:
  explicit table(std::vector<std::string> head);
  void add(std::vector<std::string> row);
  /// To standard output.
  void print() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

/// `value` with `decimals` digits behind the point.
std::string fixed(double value, int decimals);

/// Prints `results` behind its provenance as one line of JSON.
void print_json(const std::string& bench, const std::string& command_line, std::uint64_t seed,
                boost::json::object results);

} // namespace paceline::apps::bench
