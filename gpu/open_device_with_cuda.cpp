#include "gpu/cuda_device.hpp"
#include "gpu/cuda_runtime.hpp"
#include "gpu/open_device.hpp"

namespace paceline::gpu {

bool built_with_cuda() noexcept { return true; }

expected<std::unique_ptr<device::compute_device>> open_device(int index) {
  auto opened = cuda_device::open(cuda_runtime(), index);
  if (!opened) return std::move(opened).error();
  return std::unique_ptr<device::compute_device>(*std::move(opened));
}

} // namespace paceline::gpu
