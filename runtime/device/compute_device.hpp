#pragma once

#include "runtime/device/stream.hpp"

#include <cstdint>
#include <memory>
#include <string>

namespace paceline::device {

class buffer_memory;
class weight_memory;

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

  virtual weight_memory& weights() noexcept = 0;
  virtual buffer_memory& buffers() noexcept = 0;

  /// Parts of the device that compute at the same time.
  virtual std::uint32_t num_partitions() const noexcept { return 1; }

  /// A new stream on partition `partition` < num_partitions().
  virtual std::unique_ptr<stream> make_stream(std::string name, std::uint32_t partition,
                                              stream_priority priority = stream_priority::normal) = 0;
};

} // namespace paceline::device
