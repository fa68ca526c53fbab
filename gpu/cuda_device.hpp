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
  /// Takes a remark for whoever operates the machine, on what makes the device slower and fails nothing: a
  /// line without its end. Called by any thread; may be empty.
  std::function<void(const std::string&)> say = {};
  /// Of a launch; at the end of what is before it where the device knows nothing else.
  launch_start earliest = launch_start::early;
  bool is_timed = false; ///< `times` tells of steps
  /// That a thread that waits for the device polls it before it sleeps: to be woken takes some tens of
  /// microseconds, and a round of a small model some hundreds.
  std::chrono::microseconds polling{0};
};

/// A GPU, through a CUDA runtime, which outlives it. Destroy its streams, matrices and buffers first.
class cuda_device final : public device::compute_device,
                          public device::weight_memory,
                          public device::buffer_memory {
 public:
  /// Device number `index` of `api`, whose products are made as `products` says. Fails with `unsupported`
  /// where there is no driver or no device of that number, or for fast mode no cuBLASLt.
  static expected<std::unique_ptr<cuda_device>> open(runtime_api& api, int index,
                                                     arithmetic products = arithmetic::reference,
                                                     cuda_device_options how = {});

  const std::string& name() const noexcept override { return context_.name; }
  bool is_strict() const noexcept override { return context_.products != arithmetic::fast; }
  device::step_times times() const noexcept override;
  /// What it is, for logs.
  const device_facts& facts() const noexcept { return facts_; }

  /// The GPU's own: nine tenths of what is free may be cells; the rest is for passes, graphs and other
  /// programs.
  expected<device::memory_space> cell_memory() override;
  device::weight_memory& weights() noexcept override { return *this; }
  device::buffer_memory& buffers() noexcept override { return *this; }

  /// Throws cuda_failure, or std::system_error when the machine grants no more threads.
  std::unique_ptr<device::stream> make_stream(std::string name, std::uint32_t partition,
                                              device::stream_options options = {}) override;

  expected<std::unique_ptr<const device::matrix>> pack(std::string_view name,
                                                       const device::tensor_view& tensor,
                                                       const device::bytes_done& done = {},
                                                       const device::bytes_needed& needed = {}) override;
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
  // For what is written outside programs, and is there when the call returns.
  std::mutex transfer_mutex_;
  std::optional<command_queue> transfer_queue_;
  std::optional<event> transferred_;
};

} // namespace paceline::gpu
