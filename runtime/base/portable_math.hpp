#pragma once

#include <bit>
#include <cstdint>
#include <limits>

/// Logarithm and exponential from additions and multiplications in one fixed order. The library's versions
/// differ between machines (with and without fused multiply-add) and between vector loops and their tails,
/// and a sampled token must not depend on such differences. Vectorisable: every branch can be a select, and
/// there are no calls. `constexpr`, because nvcc lets device code call constexpr host functions.
namespace paceline {

/// Natural logarithm of a positive normal number, within 2 units in the last place.
///
/// log(2^e * m) = e*log(2) + 2*atanh(f), f = (m-1)/(m+1), m in [sqrt(1/2), sqrt(2)), so f^2 <= 0.0295 and
/// eleven terms of atanh's series reach 2^-56.
constexpr double portable_log(double x) noexcept {
  constexpr std::uint64_t mantissa_bits = 0x000FFFFFFFFFFFFFULL;
  constexpr double log2_high = 0x1.62e42fee00000p-1; // 33 bits: times any exponent it is exact
  constexpr double log2_low = 0x1.a39ef35793c76p-33;
  const auto bits = std::bit_cast<std::uint64_t>(x);
  double exponent = static_cast<double>(static_cast<std::int32_t>(bits >> 52) - 1023);
  double m = std::bit_cast<double>((bits & mantissa_bits) | 0x3FF0000000000000ULL); // [1, 2)
  const bool upper = m > 0x1.6a09e667f3bcdp+0;                                      // sqrt(2)
  m = upper ? m * 0.5 : m;
  exponent = upper ? exponent + 1.0 : exponent;
  const double f = (m - 1.0) / (m + 1.0);
  const double s = f * f;
  double series = 1.0 / 23.0;
  series = series * s + 1.0 / 21.0;
  series = series * s + 1.0 / 19.0;
  series = series * s + 1.0 / 17.0;
  series = series * s + 1.0 / 15.0;
  series = series * s + 1.0 / 13.0;
  series = series * s + 1.0 / 11.0;
  series = series * s + 1.0 / 9.0;
  series = series * s + 1.0 / 7.0;
  series = series * s + 1.0 / 5.0;
  series = series * s + 1.0 / 3.0;
  const double log_m = 2.0 * f + 2.0 * f * (s * series);
  return exponent * log2_high + (log_m + exponent * log2_low);
}

/// e^x for x <= 88, within 2 units in the last place of a float. 0 below -86.99 (and for -infinity and NaN),
/// so that no result is subnormal.
/// x = n*log(2) + r, |r| <= 0.35; e^r by seven terms of its series. 2^n is computed as 2 * 2^(n-1). The
/// factor 2^(n-1) is built from bits and is 0 for n = -126. So the lower end of the range needs no second
/// comparison, which would prevent vectorisation.
constexpr float portable_exp(float x) noexcept {
  constexpr float smallest = -87.3F;     // rounds to n = -126
  constexpr float shifter = 12582912.0F; // 1.5 * 2^23: adding it rounds to an integer
  const float bounded = x > smallest ? x : smallest;
  const float shifted = bounded * 1.44269504F + shifter;
  const float n = shifted - shifter;
  const float r =
      (bounded - n * 0.693359375F) - n * -2.12194440e-4F; // log(2) in two parts, the first of 9 bits
  float e = 1.0F / 5040.0F;
  e = e * r + 1.0F / 720.0F;
  e = e * r + 1.0F / 120.0F;
  e = e * r + 1.0F / 24.0F;
  e = e * r + 1.0F / 6.0F;
  e = e * r + 0.5F;
  e = e * r + 1.0F;
  e = e * r + 1.0F;
  const std::int32_t exponent = std::bit_cast<std::int32_t>(shifted) - std::bit_cast<std::int32_t>(shifter);
  return (e + e) * std::bit_cast<float>((exponent + 126) << 23);
}

} // namespace paceline
