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

/// Memory that the KV cells of a device lie in.
struct memory_space {
  std::string name;                  ///< "host", "cuda:0": devices whose spaces have one name share it
  std::uint64_t bytes_for_cells = 0; ///< what cells may take, as of now, where nobody says otherwise
  /// A buffer takes all its bytes when it is made, rather than page by page as they are written.
  bool taken_whole = false;
};

/// What a device's own clock says of steps: work that it is given at once, at whose end the host waits for
/// results.
struct step_times {
  std::uint64_t num_steps = 0;
  std::chrono::nanoseconds busy{}; ///< from where the device was before a step's first command to its end
  /// Of `busy` the part in which the device may have waited for the host: from then until the host had handed
  /// over the step, or of one that is handed over piece by piece the first of them.
  std::chrono::nanoseconds launching{};
};

/// A device as the engine sees it: where models' weights and KV pools lie, and what makes streams. Outlives
/// everything made from it. Thread-safe.
class compute_device {
 public:
  virtual ~compute_device() = default;

  /// As configurations say it: "cpu", "cuda:0".
  virtual const std::string& name() const noexcept = 0;

  /// Whether a row's results have the same bits whatever it is computed with. Not so in a fast mode, where
  /// the last bits of a prompt's rows depend on how many there are in their pass.
  virtual bool is_strict() const noexcept { return true; }

  /// Fails with what asking the device fails with.
  virtual expected<memory_space> cell_memory() = 0;

  /// Of all its streams so far. No steps: a device without a clock of its own.
  virtual step_times times() const noexcept { return {}; }

  virtual weight_memory& weights() noexcept = 0;
  virtual buffer_memory& buffers() noexcept = 0;

  /// Parts of the device that compute at the same time.
  virtual std::uint32_t num_partitions() const noexcept { return 1; }

  /// A new stream on partition `partition` < num_partitions().
  virtual std::unique_ptr<stream> make_stream(std::string name, std::uint32_t partition,
                                              stream_options options = {}) = 0;
};

} // namespace paceline::device
