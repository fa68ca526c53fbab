#pragma once

#include "gpu/kernels/params.hpp"

namespace paceline::gpu {

/// The address with which the CUDA runtime launches `kernel`: the host stub of its __global__ function.
const void* device_function(kernel_id kernel) noexcept;

/// Runs `kernel` as the calling emulated thread; `params` points to the kernel's struct.
void run_emulated_thread(kernel_id kernel, const void* params);

} // namespace paceline::gpu
