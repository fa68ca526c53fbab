#include "gpu/cuda_device.hpp"
#include "gpu/emulation/emulated_runtime.hpp"
#include "tests/gpu/tested_device.hpp"

#include <stdexcept>

namespace paceline::gpu {

namespace {

std::unique_ptr<emulation::emulated_runtime> runtime; // outlives the device of the previous test

} // namespace

std::unique_ptr<device::compute_device> make_tested_gpu(std::uint64_t seed, arithmetic products) {
  runtime = std::make_unique<emulation::emulated_runtime>(seed);
  auto opened = cuda_device::open(*runtime, 0, products, {.is_timed = true});
  if (!opened) throw std::runtime_error(opened.error().message());
  return *std::move(opened);
}

bool tested_gpu_is_emulated() { return true; }

runtime_api* tested_runtime() { return runtime.get(); }

void fail_next(const char* function) { runtime->fail(function, 0, failure_kind::other); }

std::optional<std::uint32_t> num_calls(const char* function) { return runtime->num_calls(function); }

std::optional<std::uint64_t> num_early_launches() { return runtime->num_early(); }

std::optional<std::uint64_t> num_launches(kernel_id kernel) { return runtime->num_launches(kernel); }

} // namespace paceline::gpu
