#pragma once

#include "gpu/kernels/params.hpp"

namespace paceline::gpu {

/// What the CUDA runtime launches for `kernel`: the address of the host's stand-in of a __global__ function.
const void* device_function(kernel_id kernel) noexcept;

/// Runs one thread of `kernel` on the emulation; `params` is the kernel's own struct.
void run_emulated_thread(kernel_id kernel, const void* params);

} // namespace paceline::gpu
