#pragma once

#include "runtime/cpu/partition.hpp"
#include "runtime/cpu/weight_arena.hpp"
#include "runtime/device/buffer.hpp"
#include "runtime/device/compute_device.hpp"
#include "runtime/device/matrix.hpp"

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::cpu {

struct cpu_device_options {
  std::vector<partition_options> partitions; ///< at least one; their cores should be disjoint
  /// nullopt: the level that the environment variable PACELINE_CPU_LEVEL names, else the machine's best.
  std::optional<kernel_level> level;
};

/// The host as a device: memory for weights, and partitions of cores with streams. Streams of one partition
/// take turns, which tenants share fairly (device::turn_order). Streams of different partitions compute at
/// the same time.
///
/// Streams must be destroyed before the device. A stream's destructor waits for its work. A thread that runs
/// a fence's action must not destroy the device or a stream with work in it.
class cpu_device final : public device::compute_device,
                         public device::weight_memory,
                         public device::buffer_memory {
 public:
  /// Error: `invalid_argument` for a level that the machine cannot run, or partitions without threads.
  static expected<std::unique_ptr<cpu_device>> make(const cpu_device_options& opts);
  ~cpu_device() override;

  const std::string& name() const noexcept override { return name_; }
  kernel_level level() const noexcept { return level_; }
  std::uint32_t num_partitions() const noexcept override {
    return static_cast<std::uint32_t>(partitions_.size());
  }
  std::uint32_t num_threads(std::uint32_t partition) const;

  /// A new stream on partition `partition` < num_partitions().
  std::unique_ptr<device::stream> make_stream(std::string name, std::uint32_t partition,
                                              device::stream_options options = {}) override;

  /// Half of the machine's memory is available for cells.
  expected<device::memory_space> cell_memory() override;
  device::weight_memory& weights() noexcept override { return *this; }
  device::buffer_memory& buffers() noexcept override { return *this; }

  expected<std::unique_ptr<const device::matrix>> pack(std::string_view name,
                                                       const device::tensor_view& tensor,
                                                       const device::bytes_done& done = {},
                                                       const device::bytes_needed& needed = {}) override;
  std::unique_ptr<device::buffer> allocate(std::uint64_t num_bytes) override;

 private:
  explicit cpu_device(kernel_level level) : level_(level) {}

  const std::string name_ = "cpu";
  const kernel_level level_;
  weight_arena weights_;
  std::vector<std::unique_ptr<partition>> partitions_;
};

} // namespace paceline::cpu
