#include "gpu/cuda_device.hpp"
#include "gpu/cuda_runtime.hpp"
#include "gpu/open_device.hpp"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace paceline::gpu {
namespace {

/// Reports why a device works slower than it could. The engine has no log, so it goes to standard error.
void say_on_standard_error(const std::string& remark) {
  std::fprintf(stderr, "paceline: %s\n", remark.c_str());
}

/// The time is long enough for rounds of large models. Prompts may take longer.
constexpr auto polling_of_devices = std::chrono::milliseconds(5);

/// False if the environment variable `name` is 0, true if it is 1 or empty; other values are errors.
expected<bool> is_on(const std::string& name) {
  const char* const value = std::getenv(name.c_str());
  const std::string wanted = value != nullptr ? value : "";
  if (wanted.empty() || wanted == "1") return true;
  if (wanted == "0") return false;
  return error(errc::invalid_argument, "environment " + name + ": \"" + wanted + "\" is neither 0 nor 1");
}

} // namespace

bool built_with_cuda() noexcept { return true; }

expected<std::unique_ptr<device::compute_device>> open_device(int index, arithmetic products) {
  const auto starts_early = is_on("PACELINE_CUDA_EARLY_STARTS"); // docs/decisions/0510
  if (!starts_early) return starts_early.error();
  const auto polls = is_on("PACELINE_CUDA_POLLING");
  if (!polls) return polls.error();
  cuda_device_options how{.say = say_on_standard_error, .is_timed = true};
  if (!*starts_early) how.earliest = launch_start::at_end;
  if (*polls) how.polling = polling_of_devices;
  auto opened = cuda_device::open(cuda_runtime(), index, products, std::move(how));
  if (!opened) return std::move(opened).error();
  return std::unique_ptr<device::compute_device>(*std::move(opened));
}

runtime_api* runtime_of_devices() {
  int num_devices = 0;
  return cuda_runtime().num_devices(num_devices) == 0 && num_devices > 0 ? &cuda_runtime() : nullptr;
}

} // namespace paceline::gpu
