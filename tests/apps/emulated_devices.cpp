// Emulates GPU number 0. Replaces gpu/open_device_with_cuda.cpp in a `paceline` that needs no GPU.
#include "gpu/cuda_device.hpp"
#include "gpu/emulation/emulated_runtime.hpp"
#include "gpu/open_device.hpp"

namespace paceline::gpu {
namespace {

emulation::emulated_runtime& runtime() {
  static emulation::emulated_runtime one;
  return one;
}

} // namespace

bool built_with_cuda() noexcept { return true; }

expected<std::unique_ptr<device::compute_device>> open_device(int index, arithmetic products) {
  auto opened = cuda_device::open(runtime(), index, products, {.is_timed = true});
  if (!opened) return std::move(opened).error();
  return std::unique_ptr<device::compute_device>(*std::move(opened));
}

runtime_api* runtime_of_devices() { return &runtime(); }

} // namespace paceline::gpu
