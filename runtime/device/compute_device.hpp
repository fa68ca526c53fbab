#pragma once

#include "runtime/base/expected.hpp"
#include "runtime/device/stream.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

namespace paceline::device {

class buffer_memory;
class weight_memory;

/// The memory in which the KV cells of a device lie.
struct memory_space {
  std::string name;                  ///< "host", "cuda:0"; devices with the same name share one space
  std::uint64_t bytes_for_cells = 0; ///< bytes to use for cells if the configuration sets no budget
  /// True if a buffer takes all its bytes when it is allocated; false if it takes them page by page as they
  /// are written.
  bool taken_whole = false;
  std::uint64_t max_bytes = 0; ///< most bytes that cells can ever take; 0: not known
};

/// Durations of steps by the device's own clock. A step is all work that the host submits between two points
/// at which it waits for results.
struct step_times {
  std::uint64_t num_steps = 0;
  std::chrono::nanoseconds busy{}; ///< from the device's arrival at each step to the step's end
  /// The part of `busy` in which the device may have waited for the host: the time until the host had
  /// submitted the step, or the step's first piece if it has several.
  std::chrono::nanoseconds launching{};
};

/// A device as the engine sees it: it holds the weights and KV pools of models and makes streams. Must
/// outlive everything made from it. Thread-safe.
class compute_device {
 public:
  virtual ~compute_device() = default;

  /// The name in configurations: "cpu", "cuda:0".
  virtual const std::string& name() const noexcept = 0;

  /// True if a row's results have the same bits whatever other rows are in its pass. False in fast mode,
  /// where the low bits of a prompt row's results depend on the number of rows in its pass.
  virtual bool is_strict() const noexcept { return true; }

  /// The memory for KV cells. Returns an error if the device cannot be queried.
  virtual expected<memory_space> cell_memory() = 0;

  /// Durations over all its streams so far. A device without a clock of its own reports no steps.
  virtual step_times times() const noexcept { return {}; }

  virtual weight_memory& weights() noexcept = 0;
  virtual buffer_memory& buffers() noexcept = 0;

  /// Number of parts of the device that can compute at the same time.
  virtual std::uint32_t num_partitions() const noexcept { return 1; }

  /// A new stream on partition `partition` < num_partitions().
  virtual std::unique_ptr<stream> make_stream(std::string name, std::uint32_t partition,
                                              stream_options options = {}) = 0;
};

} // namespace paceline::device
