#include "gpu/open_device.hpp"
#include "tests/gpu/tested_device.hpp"

#include <stdexcept>

namespace paceline::gpu {

std::unique_ptr<device::compute_device> make_tested_gpu(std::uint64_t, arithmetic products) {
  if (runtime_of_devices() == nullptr) return nullptr;
  auto opened = open_device(0, products);
  if (!opened) throw std::runtime_error(opened.error().message()); // a GPU exists but is unusable
  return *std::move(opened);
}

bool tested_gpu_is_emulated() { return false; }

runtime_api* tested_runtime() { return runtime_of_devices(); }

void fail_next(const char*) {}

std::optional<std::uint32_t> num_calls(const char*) { return std::nullopt; }

std::optional<std::uint64_t> num_early_launches() { return std::nullopt; }

std::optional<std::uint64_t> num_launches(kernel_id) { return std::nullopt; }

} // namespace paceline::gpu
