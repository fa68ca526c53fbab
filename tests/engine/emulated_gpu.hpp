#pragma once

#include "engine/device_set.hpp"
#include "gpu/cuda_device.hpp"
#include "gpu/emulation/emulated_runtime.hpp"

#include <memory>

namespace paceline::testing {

/// An emulated GPU for an engine or a device set; must outlive it.
template <class Runtime = gpu::emulation::emulated_runtime>
class emulated_gpu {
 public:
  gpu_opener opener() {
    return [this](int index, gpu::arithmetic products) -> expected<std::unique_ptr<device::compute_device>> {
      ++num_opened;
      auto opened = gpu::cuda_device::open(runtime, index, products);
      if (!opened) return std::move(opened).error();
      return std::unique_ptr<device::compute_device>(*std::move(opened));
    };
  }
  Runtime runtime{7};
  int num_opened = 0;
};

} // namespace paceline::testing
