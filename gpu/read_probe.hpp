#pragma once

#include "gpu/owners.hpp"

#include <cstddef>
#include <cstdint>

namespace paceline::gpu {

/// How fast a GPU reads its own memory: the roof of whatever reads weights once. Has memory and a queue of
/// its own; functions throw cuda_failure. Used by one thread.
class read_probe {
 public:
  /// So much that the cache of no GPU known to us holds more than a fiftieth of it.
  static constexpr std::size_t enough_bytes = std::size_t{4} << 30;

  /// Takes `num_bytes` of the device's memory, a multiple of 16 and not none. `on` outlives the probe.
  explicit read_probe(const device_context& on, std::size_t num_bytes = enough_bytes);

  /// Bytes a second of a few sweeps through all of it, by the device's clock.
  double sample();

 private:
  const device_context& on_;
  command_queue queue_;
  event begun_, done_;
  memory from_, words_;
  std::uint32_t num_blocks_ = 0;
};

} // namespace paceline::gpu
