#pragma once

#include "runtime/base/expected.hpp"
#include "runtime/device/compute_device.hpp"

#include <memory>

namespace paceline::gpu {

/// True in a build that has the CUDA device.
bool built_with_cuda() noexcept;

/// GPU number `index` of this machine. Fails with `unsupported` where the build has no CUDA, or the machine
/// no driver or no such device.
expected<std::unique_ptr<device::compute_device>> open_device(int index);

} // namespace paceline::gpu
