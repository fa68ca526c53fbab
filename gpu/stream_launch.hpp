#pragma once

#include "gpu/kernels/params.hpp"
#include "gpu/kernels/streamed_params.hpp"

#include <cstdint>

namespace paceline::gpu {

/// The kernel that multiplies `num_tiles` (1, 2, 4 or 8) tiles of 8 rows of x with weights of type `type`.
/// Fails a check (PACELINE_CHECK) if the type is not streamed.
kernel_id stream_kernel_for(device::tensor_type type, std::uint32_t num_tiles);
/// The same for the experts of a mixture (gpu/kernels/expert_stream.cuh).
kernel_id expert_kernel_for(device::tensor_type type);

/// Bytes of shared memory of a thread block of either kernel.
constexpr std::uint32_t stream_shared_bytes(device::tensor_type type) {
  return stream_warps * stream_strips * streamed_layout_of(type).slot_bytes();
}

/// Number of tiles in a strip, which consists of whole spans (gpu/kernels/streamed_layout.hpp).
std::uint32_t tiles_of_strip(const streamed_weights& weights);

} // namespace paceline::gpu
