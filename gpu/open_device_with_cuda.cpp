#include "gpu/cuda_device.hpp"
#include "gpu/cuda_runtime.hpp"
#include "gpu/open_device.hpp"

namespace paceline::gpu {

bool built_with_cuda() noexcept { return true; }

expected<std::unique_ptr<device::compute_device>> open_device(int index, arithmetic products) {
  auto opened = cuda_device::open(cuda_runtime(), index, products);
  if (!opened) return std::move(opened).error();
  return std::unique_ptr<device::compute_device>(*std::move(opened));
}

runtime_api* runtime_of_devices() {
  int num_devices = 0;
  return cuda_runtime().num_devices(num_devices) == 0 && num_devices > 0 ? &cuda_runtime() : nullptr;
}

} // namespace paceline::gpu
