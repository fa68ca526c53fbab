#pragma once

#include "runtime/device/math_constants.hpp"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace paceline::device {

/// The exponential function of every device. `constexpr`, because nvcc lets device code call constexpr host
/// functions. The coefficients are local constants because device code cannot access the host's arrays.
constexpr float exp_reference(float x) {
  using c = exp_constants;
  if (std::isnan(x)) return x;
  if (x > c::highest) return std::numeric_limits<float>::infinity();
  if (x < c::lowest) return 0.0F;
  const float n = std::nearbyint(x * c::log2_e);
  float r = std::fma(n, -c::ln2_high, x);
  r = std::fma(n, -c::ln2_low, r);
  constexpr float p0 = c::p[0], p1 = c::p[1], p2 = c::p[2], p3 = c::p[3], p4 = c::p[4];
  const float p = std::fma(std::fma(std::fma(std::fma(p4, r, p3), r, p2), r, p1), r, p0);
  const float y = std::fma(p, r * r, r) + 1.0F;
  return y * std::bit_cast<float>((static_cast<std::int32_t>(n) + 127) << 23);
}

/// The hyperbolic tangent of every device.
constexpr float tanh_reference(float x) {
  using c = tanh_constants;
  if (std::fabs(x) < c::small) {
    const float t = x * x;
    constexpr float q0 = c::q[0], q1 = c::q[1], q2 = c::q[2], q3 = c::q[3], q4 = c::q[4];
    const float q = std::fma(std::fma(std::fma(std::fma(q4, t, q3), t, q2), t, q1), t, q0);
    return std::fma(x * t, q, x);
  }
  const float magnitude = 1.0F - 2.0F / (exp_reference(std::fabs(x) * 2.0F) + 1.0F);
  return std::copysign(magnitude, x);
}

/// log(1 + exp(x)) of every device: max(x, 0) + log(1 + t) with t = exp(-|x|), where log(1 + t) is
/// 2 artanh(t / (2 + t)) by its series; the terms left out are below half an ulp, because t / (2 + t) <= 1/3.
constexpr float softplus_reference(float x) {
  const float t = exp_reference(-std::fabs(x));
  const float s = t / (2.0F + t), u = s * s;
  float series = 1.0F / 17.0F;
  for (int n = 15; n >= 1; n -= 2) series = std::fma(series, u, 1.0F / static_cast<float>(n));
  return std::fma(2.0F * s, series, x > 0.0F ? x : 0.0F);
}

/// GELU by the error function, on every device.
constexpr float gelu_erf_reference(float x) {
  using c = gelu_constants;
  const float z = std::fabs(x) * c::root_half;
  const float t = 1.0F / std::fma(c::scale, z, 1.0F);
  constexpr float e0 = c::e[0], e1 = c::e[1], e2 = c::e[2], e3 = c::e[3], e4 = c::e[4];
  const float p = std::fma(std::fma(std::fma(std::fma(e4, t, e3), t, e2), t, e1), t, e0);
  const float q = ((p * t) * exp_reference(-(z * z))) * 0.5F;
  return x * (x < 0.0F ? q : 1.0F - q);
}

} // namespace paceline::device
