#include "gpu/cuda_device.hpp"
#include "gpu/cuda_runtime.hpp"
#include "gpu/open_device.hpp"

#include <cstdio>
#include <cstdlib>
#include <string>

namespace paceline::gpu {
namespace {

/// A device that works slower than it might would otherwise look like any other: the engine has no log, and
/// standard error is the daemon's.
void say_on_standard_error(const std::string& remark) {
  std::fprintf(stderr, "paceline: %s\n", remark.c_str());
}

/// To tell whether an error is one of kernels that start early (docs/decisions/0510).
expected<launch_start> earliest_of_environment() {
  const char* const value = std::getenv("PACELINE_CUDA_EARLY_STARTS");
  const std::string wanted = value != nullptr ? value : "";
  if (wanted.empty() || wanted == "1") return launch_start::early;
  if (wanted == "0") return launch_start::at_end;
  return error(errc::invalid_argument,
               "environment PACELINE_CUDA_EARLY_STARTS: \"" + wanted + "\" is neither 0 nor 1");
}

} // namespace

bool built_with_cuda() noexcept { return true; }

expected<std::unique_ptr<device::compute_device>> open_device(int index, arithmetic products) {
  const auto earliest = earliest_of_environment();
  if (!earliest) return earliest.error();
  auto opened = cuda_device::open(cuda_runtime(), index, products,
                                  {.say = say_on_standard_error, .earliest = *earliest, .is_timed = true});
  if (!opened) return std::move(opened).error();
  return std::unique_ptr<device::compute_device>(*std::move(opened));
}

runtime_api* runtime_of_devices() {
  int num_devices = 0;
  return cuda_runtime().num_devices(num_devices) == 0 && num_devices > 0 ? &cuda_runtime() : nullptr;
}

} // namespace paceline::gpu
