#pragma once

#include "gpu/kernels/sixteen_bit.hpp"
#include "runtime/base/expected.hpp"
#include "runtime/device/compute_device.hpp"

#include <memory>

namespace paceline::gpu {

/// True in a build that has the CUDA device.
bool built_with_cuda() noexcept;

/// Opens GPU number `index` of this machine, with the given arithmetic of matrix products
/// (gpu/kernels/sixteen_bit.hpp). Error: `unsupported` if the build has no CUDA, or if the machine has no
/// driver or no such device; otherwise as cuda_device::open.
///
/// Two variables of the environment switch optimisations off if they are 0. PACELINE_CUDA_EARLY_STARTS=0:
/// every kernel starts at the end of the previous one. PACELINE_CUDA_POLLING=0: a thread that waits for the
/// GPU sleeps at once. Values other than 0, 1 and empty give the error `invalid_argument`.
expected<std::unique_ptr<device::compute_device>> open_device(int index, arithmetic products);

class runtime_api;

/// The runtime that devices use; null if the build has no CUDA or the machine no GPU.
runtime_api* runtime_of_devices();

} // namespace paceline::gpu
