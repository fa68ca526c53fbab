#pragma once

#include "gpu/runtime_api.hpp"

namespace paceline::gpu {

/// The CUDA runtime of this process. Only in builds with CUDA.
runtime_api& cuda_runtime();

} // namespace paceline::gpu
