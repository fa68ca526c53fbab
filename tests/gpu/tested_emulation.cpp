#include "gpu/cuda_device.hpp"
#include "gpu/emulation/emulated_runtime.hpp"
#include "tests/gpu/tested_device.hpp"

#include <stdexcept>

namespace paceline::gpu {

std::unique_ptr<device::compute_device> make_tested_gpu(std::uint64_t seed) {
  static std::unique_ptr<emulation::emulated_runtime> runtime; // outlives the device of the test before
  runtime = std::make_unique<emulation::emulated_runtime>(seed);
  auto opened = cuda_device::open(*runtime, 0);
  if (!opened) throw std::runtime_error(opened.error().message());
  return *std::move(opened);
}

} // namespace paceline::gpu
