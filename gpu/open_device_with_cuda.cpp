#include "gpu/cuda_device.hpp"
#include "gpu/cuda_runtime.hpp"
#include "gpu/open_device.hpp"

#include <cstdio>

namespace paceline::gpu {
namespace {

/// A device that works slower than it might would otherwise look like any other: the engine has no log, and
/// standard error is the daemon's.
void say_on_standard_error(const std::string& remark) {
  std::fprintf(stderr, "paceline: %s\n", remark.c_str());
}

} // namespace

bool built_with_cuda() noexcept { return true; }

expected<std::unique_ptr<device::compute_device>> open_device(int index, arithmetic products) {
  auto opened = cuda_device::open(cuda_runtime(), index, products, say_on_standard_error);
  if (!opened) return std::move(opened).error();
  return std::unique_ptr<device::compute_device>(*std::move(opened));
}

runtime_api* runtime_of_devices() {
  int num_devices = 0;
  return cuda_runtime().num_devices(num_devices) == 0 && num_devices > 0 ? &cuda_runtime() : nullptr;
}

} // namespace paceline::gpu
