#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace paceline::cpu {
class thread_team;
}

namespace paceline::apps::bench {

/// What the machine gives a team at most, measured in the same minutes as the figure it is compared with: the
/// roof of a roofline. Neighbours on a shared host change it from minute to minute.
class machine_limits {
 public:
  /// Takes memory beyond any last-level cache we know.
  explicit machine_limits(cpu::thread_team& team);

  /// Measures once; call it between the passes that are timed.
  void sample();

  double read_bytes_per_second() const; ///< median: all threads read memory in order
  double multiply_adds_per_second()
      const; ///< median: all threads multiply bytes that lie in registers, at the best kernel level

 private:
  cpu::thread_team& team_;
  std::vector<std::uint64_t> memory_;
  std::vector<double> read_rates_;
  std::vector<double> dot_rates_;
};

} // namespace paceline::apps::bench
