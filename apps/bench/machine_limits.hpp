#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace paceline::cpu {
class thread_team;
}

namespace paceline::apps::bench {

/// The maximum rates of a thread team on this machine: the roof of a roofline model. On a shared host they
/// change from minute to minute, so they are sampled between the passes with which they are compared.
class machine_limits {
 public:
  /// Allocates a buffer that is larger than any known last-level cache.
  explicit machine_limits(cpu::thread_team& team);

  /// Takes one sample; to be called between the passes that are timed.
  void sample();

  double read_bytes_per_second() const; ///< median of the samples: all threads read memory sequentially
  /// Median of the samples: all threads multiply bytes that are in registers, with the best instructions that
  /// the CPU supports.
  double multiply_adds_per_second() const;

 private:
  cpu::thread_team& team_;
  std::vector<std::uint64_t> memory_;
  std::vector<double> read_rates_;
  std::vector<double> dot_rates_;
};

} // namespace paceline::apps::bench
