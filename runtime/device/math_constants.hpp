#pragma once

namespace paceline::device {

/// Constants of the devices' exp and tanh. Every device and kernel level evaluates the expressions of
/// scalar_math.hpp in the same order, with fused multiply-adds where that file has `fma`, so all levels,
/// lanes and tails agree to the bit.
///
/// exp: x = n ln 2 + r, ln 2 in two parts (the first has 9 bits, so n times it is exact), exp(r) = 1 + (r +
/// r^2 P(r)) with P a degree-4 minimax polynomial on |r| <= ln 2 / 2 (relative error 3.2e-9). Result within
/// 1.1 units in the last place (measured over all exponents, `scalar_math_test`); 0 below `lowest`, infinity
/// above `highest`.
struct exp_constants {
  static constexpr float lowest = -87.3F;
  static constexpr float highest = 88.37F;
  static constexpr float log2_e = 1.442695F;
  static constexpr float ln2_high = 0.693359375F;
  static constexpr float ln2_low = -0.00021219444F;
  static constexpr float p[5] = {0.5F, 0.1666652F, 0.041666206F, 0.008368882F, 0.001395048F};
};

/// tanh: if |x| < `small`, x + x^3 Q(x^2) with Q a minimax polynomial (relative error 4.2e-9); otherwise
/// 1 - 2 / (exp(2 |x|) + 1) with the sign of x. Within 1.4 units in the last place.
struct tanh_constants {
  static constexpr float small = 0.625F;
  static constexpr float q[5] = {-0.33333284F, 0.13331491F, -0.053743497F, 0.020650588F, -0.005717045F};
};

struct gelu_constants {
  static constexpr float twice_root_two_over_pi = 1.5957691216F;
  static constexpr float cubic = 0.044715F;
  static constexpr float root_half = 0.70710678F;
  /// erfc(z) = ((((e4 t + e3) t + e2) t + e1) t + e0) t exp(-z^2), t = 1 / (1 + scale z), within 1.5e-7
  /// (Abramowitz and Stegun, 7.1.26).
  static constexpr float scale = 0.3275911F;
  static constexpr float e[5] = {0.254829592F, -0.284496736F, 1.421413741F, -1.453152027F, 1.061405429F};
};

} // namespace paceline::device
