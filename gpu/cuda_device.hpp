#pragma once

#include "gpu/cuda_failure.hpp"
#include "gpu/owners.hpp"
#include "runtime/device/buffer.hpp"
#include "runtime/device/compute_device.hpp"
#include "runtime/device/matrix.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

namespace paceline::gpu {

struct cuda_device_options {
  /// Receives messages for the operator, without a line end, about causes of slowness that are not errors.
  /// Called on any thread; may be empty.
  std::function<void(const std::string&)> say = {};
  /// When a launch may start. `at_end` is used if the device does not support `early`.
  launch_start earliest = launch_start::early;
  bool is_timed = false; ///< whether `times` reports steps
  /// How long a thread that waits for the device polls it before it sleeps. Waking a thread takes tens of
  /// microseconds, and a round of a small model takes hundreds.
  std::chrono::microseconds polling{0};
};

/// A GPU, used through a CUDA runtime. The runtime must outlive the device, and the device must outlive its
/// streams, matrices and buffers.
class cuda_device final : public device::compute_device,
                          public device::weight_memory,
                          public device::buffer_memory {
 public:
  /// Opens device number `index` of `api`. `products` selects the arithmetic of matrix products. Error:
  /// `unsupported` if there is no driver or no such device; `internal` if fast mode is requested and cuBLASLt
  /// cannot be loaded; for other failures the code of `device_context::error_of`.
  static expected<std::unique_ptr<cuda_device>> open(runtime_api& api, int index,
                                                     arithmetic products = arithmetic::reference,
                                                     cuda_device_options how = {});

  const std::string& name() const noexcept override { return context_.name; }
  bool is_strict() const noexcept override { return context_.products != arithmetic::fast; }
  device::step_times times() const noexcept override;
  /// Properties of the device, for logs.
  const device_facts& facts() const noexcept { return facts_; }

  /// The memory for KV cells: nine tenths of the bytes that are free now. The rest is for passes, graphs and
  /// other programs.
  expected<device::memory_space> cell_memory() override;
  device::weight_memory& weights() noexcept override { return *this; }
  device::buffer_memory& buffers() noexcept override { return *this; }

  /// Throws cuda_failure, or std::system_error if no thread can be started.
  std::unique_ptr<device::stream> make_stream(std::string name, std::uint32_t partition,
                                              device::stream_options options = {}) override;

  expected<std::unique_ptr<const device::matrix>> pack(std::string_view name,
                                                       const device::tensor_view& tensor,
                                                       const device::bytes_done& done = {},
                                                       const device::bytes_needed& needed = {}) override;
  /// During the call the device holds the matrices twice. Error: `resource_exhausted` if it has no memory for
  /// that.
  expected<std::unique_ptr<const device::matrix_set>>
  make_set(std::string_view name, std::vector<std::unique_ptr<const device::matrix>> matrices) override;
  std::unique_ptr<device::buffer> allocate(std::uint64_t num_bytes) override;

 private:
  class cuda_buffer;

  cuda_device(runtime_api& api, int index, device_facts facts, arithmetic products, cuda_device_options how);
  expected<std::unique_ptr<const device::matrix>> pack_rows(const device::tensor_view& tensor,
                                                            const device::bytes_done& done,
                                                            const device::bytes_needed& needed);
  expected<std::unique_ptr<const device::matrix>> pack_streamed(const device::tensor_view& tensor,
                                                                const device::bytes_done& done,
                                                                const device::bytes_needed& needed);
  void pack_part(const weight_rows& from, std::byte* to, std::size_t strip_bytes, std::uint32_t num_tiles,
                 float* multipliers);
  void upload(std::byte* to, std::span<const std::byte> bytes);
  void fill(std::byte* to, std::byte value, std::size_t num_bytes);

  step_clock clock_;
  const device_context context_;
  const device_facts facts_;
  // For transfers outside programs. They are complete when the call returns.
  std::mutex transfer_mutex_;
  std::optional<command_queue> transfer_queue_;
  std::optional<event> transferred_;
};

} // namespace paceline::gpu
