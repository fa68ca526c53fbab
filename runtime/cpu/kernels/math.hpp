#pragma once

#include "runtime/device/math_constants.hpp"

namespace paceline::cpu {
namespace {

/// exp_reference for each lane. Inlined, so that its long dependency chain overlaps with others.
template <class V>
[[gnu::always_inline]] inline typename V::vec exp(typename V::vec x) {
  using c = device::exp_constants;
  const auto lowest = V::set1(c::lowest);
  const auto highest = V::set1(c::highest);
  const auto inside = V::min(highest, V::max(lowest, x)); // x is the second operand, so NaN passes
  const auto n = V::round(V::mul(inside, V::set1(c::log2_e)));
  auto r = V::fma(n, V::set1(-c::ln2_high), inside);
  r = V::fma(n, V::set1(-c::ln2_low), r);
  auto p = V::set1(c::p[4]);
  for (int i = 3; i >= 0; --i) p = V::fma(p, r, V::set1(c::p[i]));
  const auto y = V::add(V::fma(p, V::mul(r, r), r), V::set1(1.0F));
  auto result = V::mul(y, V::power_of_two(n));
  result = V::select_less(highest, x, V::set1(__builtin_inff()), result);
  return V::select_less(x, lowest, V::zero(), result);
}

/// tanh_reference for each lane.
template <class V>
typename V::vec tanh(typename V::vec x) {
  using c = device::tanh_constants;
  const auto sign = V::bits_and(x, V::set1(-0.0F));
  const auto magnitude = V::bits_xor(x, sign);
  const auto t = V::mul(x, x);
  auto q = V::set1(c::q[4]);
  for (int i = 3; i >= 0; --i) q = V::fma(q, t, V::set1(c::q[i]));
  const auto near = V::fma(V::mul(x, t), q, x);
  const auto one = V::set1(1.0F);
  const auto e = exp<V>(V::mul(magnitude, V::set1(2.0F)));
  const auto far = V::sub(one, V::div(V::set1(2.0F), V::add(e, one)));
  return V::select_less(magnitude, V::set1(c::small), near, V::bits_or(far, sign));
}

} // namespace
} // namespace paceline::cpu
