#pragma once

#include "gpu/owners.hpp"

#include <cstddef>
#include <cstdint>

namespace paceline::gpu {

/// Measures how fast a GPU reads its own memory. This rate is an upper bound for kernels that read each
/// weight once. Has its own memory and queue; functions throw cuda_failure. Used by one thread.
class read_probe {
 public:
  /// Large enough that the second-level cache of an H100 or H200 (50 MB) holds little more than a hundredth
  /// of it.
  static constexpr std::size_t enough_bytes = std::size_t{4} << 30;

  /// Allocates `num_bytes` of the device's memory, a positive multiple of 16. `on` must outlive the probe.
  explicit read_probe(const device_context& on, std::size_t num_bytes = enough_bytes);

  /// Reads the memory a few times, waits for the end, and returns the rate in bytes per second by the
  /// device's clock.
  double sample();

 private:
  const device_context& on_;
  command_queue queue_;
  event begun_, done_;
  memory from_, words_;
  std::uint32_t num_blocks_ = 0;
};

} // namespace paceline::gpu
