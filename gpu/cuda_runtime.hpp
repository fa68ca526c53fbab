#pragma once

#include "gpu/runtime_api.hpp"

namespace paceline::gpu {

/// The CUDA runtime of this process. Present in builds with CUDA only.
runtime_api& cuda_runtime();

} // namespace paceline::gpu
