#pragma once

#include "gpu/open_device.hpp"
#include "runtime/cpu/cpu_device.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace paceline {

/// Opens a GPU by its number, for one kind of arithmetic.
using gpu_opener = std::function<expected<std::unique_ptr<device::compute_device>>(int, gpu::arithmetic)>;

/// The devices of an engine: the CPU, and each GPU once a model has asked for it.
class device_set {
 public:
  /// `open_gpu` opens the machine's GPUs, or emulated ones in tests.
  static expected<device_set> make(const cpu::cpu_device_options& cpu,
                                   gpu_opener open_gpu = gpu::open_device);

  /// The device with the configured name: "cpu", "cuda:0", "cuda:1", ...; "cuda:0/fast" for fast mode and
  /// "cuda:0/reference" for the CPU's arithmetic (docs/gpu.md). "auto" and "" are the CPU
  /// (docs/decisions/0500). Errors: `invalid_argument` for another name, and the errors of opening a GPU.
  expected<device::compute_device*> get(std::string_view name);

  /// A tenant id that no other call has returned, for the streams of one model on all devices.
  device::tenant_id new_tenant() noexcept { return device::tenant_id{++num_tenants_}; }

 private:
  device_set(std::unique_ptr<cpu::cpu_device> cpu, gpu_opener open_gpu);

  std::unique_ptr<cpu::cpu_device> cpu_;
  gpu_opener open_gpu_;
  std::uint32_t num_tenants_ = 0; ///< tenant 0 belongs to no model
  std::map<std::pair<int, gpu::arithmetic>, std::unique_ptr<device::compute_device>> gpus_;
};

} // namespace paceline
