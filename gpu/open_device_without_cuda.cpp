#include "gpu/open_device.hpp"

#include <string>

namespace paceline::gpu {

bool built_with_cuda() noexcept { return false; }

expected<std::unique_ptr<device::compute_device>> open_device(int index, arithmetic) {
  return error(errc::unsupported,
               "device cuda:" + std::to_string(index) +
                   ": this build has no CUDA device (it was configured without nvcc, or with "
                   "-DPACELINE_CUDA=OFF)");
}

runtime_api* runtime_of_devices() { return nullptr; }

} // namespace paceline::gpu
