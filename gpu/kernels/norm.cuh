#pragma once

#include "gpu/kernels/reduce_warp.cuh"

#include <cmath>

namespace paceline::gpu::PACELINE_KERNEL_SPACE {

/// The factor that norms a vector (runtime/device/op_rms_norm.hpp). All lanes of the warp must call it, and
/// all get the result. Each lane issues many loads before it waits for the first, because the time of a
/// sequential sum depends on the number of waits.
PACELINE_DEVICE float norm_scale(const float* x, std::uint32_t width, float epsilon) {
  constexpr std::uint32_t num_lanes = 16, at_a_time = 32;
  float sum = 0; // the upper half of the warp does the same as the lower one
  const float* at = x + lane_index() % num_lanes;
  const float* const end = x + width;
  PACELINE_ROLL
  for (std::uint32_t rest = width / num_lanes; rest >= at_a_time; rest -= at_a_time) {
    float values[at_a_time];
    PACELINE_UNROLL
    for (std::uint32_t i = 0; i < at_a_time; ++i) values[i] = at[i * num_lanes];
    PACELINE_UNROLL
    for (std::uint32_t i = 0; i < at_a_time; ++i) sum = std::fma(values[i], values[i], sum);
    at += at_a_time * num_lanes;
  }
  for (; at < end; at += num_lanes) sum = std::fma(*at, *at, sum);
  const float mean = add_lanes<num_lanes>(sum) / static_cast<float>(width);
  return 1.0F / std::sqrt(mean + epsilon);
}

} // namespace paceline::gpu::PACELINE_KERNEL_SPACE
