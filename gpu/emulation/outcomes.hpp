#pragma once

#include "gpu/runtime_api.hpp"

namespace paceline::gpu::emulation {

// Error numbers of the CUDA runtime.
inline constexpr status invalid_value = 1;
inline constexpr status out_of_memory = 2;
inline constexpr status launch_failure = 719;
inline constexpr status not_supported = 801;

/// True if a GPU would accept a launch of this shape.
constexpr bool can_launch(const launch_shape& shape) noexcept {
  return shape.blocks_x != 0 && shape.blocks_y != 0 && shape.blocks_y <= 65535 && shape.threads <= 1024 &&
         shape.shared_bytes <= 48 * 1024;
}

} // namespace paceline::gpu::emulation
