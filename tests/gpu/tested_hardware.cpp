#include "gpu/open_device.hpp"
#include "tests/gpu/tested_device.hpp"

namespace paceline::gpu {

std::unique_ptr<device::compute_device> make_tested_gpu(std::uint64_t, arithmetic products) {
  auto opened = products == arithmetic::reference ? open_reference_device(0) : open_device(0);
  return opened ? *std::move(opened) : nullptr;
}

runtime_api* tested_runtime() { return runtime_of_devices(); }

} // namespace paceline::gpu
