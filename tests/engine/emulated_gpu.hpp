#pragma once

#include "engine/device_set.hpp"
#include "gpu/cuda_device.hpp"
#include "gpu/emulation/emulated_runtime.hpp"

#include <memory>

namespace paceline::testing {

/// An emulated GPU for an engine or a device set. Must outlive the engine or set, and what `opener` returned.
template <class Runtime = gpu::emulation::emulated_runtime>
class emulated_gpu {
 public:
  /// Opens devices on this GPU, in place of gpu::open_device.
  gpu_opener opener() {
    return [this](int index, gpu::arithmetic products) -> expected<std::unique_ptr<device::compute_device>> {
      ++num_opened;
      auto opened = gpu::cuda_device::open(runtime, index, products);
      if (!opened) return std::move(opened).error();
      return std::unique_ptr<device::compute_device>(*std::move(opened));
    };
  }
  Runtime runtime{7}; ///< the seed decides the order of emulated threads
  int num_opened = 0; ///< attempts, failed ones included
};

} // namespace paceline::testing
