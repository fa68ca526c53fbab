#pragma once

#include "runtime/cpu/math_constants.hpp"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace paceline::cpu {

/// The CPU device's exponential function.
inline float exp_reference(float x) {
  using c = exp_constants;
  if (std::isnan(x)) return x;
  if (x > c::highest) return std::numeric_limits<float>::infinity();
  if (x < c::lowest) return 0.0F;
  const float n = std::nearbyint(x * c::log2_e);
  float r = std::fma(n, -c::ln2_high, x);
  r = std::fma(n, -c::ln2_low, r);
  float p = c::p[4];
  for (int i = 3; i >= 0; --i) p = std::fma(p, r, c::p[i]);
  const float y = std::fma(p, r * r, r) + 1.0F;
  return y * std::bit_cast<float>((static_cast<std::int32_t>(n) + 127) << 23);
}

/// The CPU device's hyperbolic tangent.
inline float tanh_reference(float x) {
  using c = tanh_constants;
  if (std::fabs(x) < c::small) {
    const float t = x * x;
    float q = c::q[4];
    for (int i = 3; i >= 0; --i) q = std::fma(q, t, c::q[i]);
    return std::fma(x * t, q, x);
  }
  const float magnitude = 1.0F - 2.0F / (exp_reference(std::fabs(x) * 2.0F) + 1.0F);
  return std::copysign(magnitude, x);
}

} // namespace paceline::cpu
