#pragma once

#include "gpu/kernels/params.hpp"
#include "gpu/kernels/streamed_params.hpp"

#include <cstdint>

namespace paceline::gpu {

/// The kernel that multiplies `num_tiles` tiles of 8 rows, 1, 2, 4 or 8, with weights of a streamed format.
kernel_id stream_kernel_for(device::tensor_type type, std::uint32_t num_tiles);
/// The kernel that multiplies with the experts of a mixture.
kernel_id expert_kernel_for(device::tensor_type type);

/// Shared memory of a block of either kernel.
constexpr std::uint32_t stream_shared_bytes(device::tensor_type type) {
  return stream_warps * stream_strips * streamed_layout_of(type).slot_bytes();
}

/// Tiles of a strip, which consists of whole spans.
std::uint32_t tiles_of_strip(const streamed_weights& weights);

} // namespace paceline::gpu
