#pragma once

#include "gpu/kernels/params.hpp"

namespace paceline::gpu {

/// The address that the CUDA runtime launches for `kernel`: the host's stub of a __global__ function.
const void* device_function(kernel_id kernel) noexcept;

/// Runs one thread of `kernel` on the emulation; `params` points to the kernel's struct.
void run_emulated_thread(kernel_id kernel, const void* params);

} // namespace paceline::gpu
