#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace paceline::cpu {
class thread_team;
}

namespace paceline::apps::bench {

/// The maximum rates of a team on this machine, measured in the same minutes as the figure that is compared
/// with them: the roof of a roofline. On a shared host other guests change it from minute to minute.
class machine_limits {
 public:
  /// Allocates more memory than any known last-level cache.
  explicit machine_limits(cpu::thread_team& team);

  /// Takes one sample; to be called between the passes that are timed.
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
