#pragma once

#include "gpu/kernels/dialect.cuh"

#include <cmath>

namespace paceline::gpu::PACELINE_KERNEL_SPACE {

/// Combines the values of each group of `2 * Half` adjacent lanes: first of lanes that are `Half` apart, then
/// `Half / 2`, down to 1. The first argument of `combine` is a lane's own value. All lanes of the warp must
/// call it.
template <std::uint32_t Half, class Combine>
PACELINE_DEVICE float reduce_warp(float value, const Combine& combine) {
#ifdef __CUDACC__
  PACELINE_UNROLL
  for (std::uint32_t apart = Half; apart > 0; apart /= 2) value = combine(value, shuffle_xor(value, apart));
  return value;
#else
  // The same operations, but the emulation switches threads once instead of once for each distance.
  const float* const of_lanes = emulation::show_to_warp(value);
  const std::uint32_t self = lane_index();
  float values[2 * Half]; // [i]: the value of the lane whose number differs from `self` in the bits of i
  for (std::uint32_t i = 0; i < 2 * Half; ++i) values[i] = of_lanes[self ^ i];
  for (std::uint32_t apart = Half; apart > 0; apart /= 2)
    for (std::uint32_t i = 0; i < apart; ++i) values[i] = combine(values[i], values[i + apart]);
  return values[0];
#endif
}

/// The largest value of the warp, in all lanes. NaN is ignored unless all values are NaN.
PACELINE_DEVICE float largest_of_warp(float value) {
  return reduce_warp<warp_size / 2>(value, [](float own, float other) { return std::fmax(own, other); });
}

/// The sum of each `Num` adjacent lanes, added in halves; the same in all of these lanes.
template <std::uint32_t Num>
PACELINE_DEVICE float add_lanes(float value) {
  return reduce_warp<Num / 2>(value, [](float own, float other) { return own + other; });
}

} // namespace paceline::gpu::PACELINE_KERNEL_SPACE
