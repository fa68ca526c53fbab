#include "runtime/device/scalar_math.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace paceline::device {
namespace {

/// Distance of `value` from `exact` in units of the last place of a float near `exact`.
double ulps(float value, double exact) {
  int exponent = 0;
  std::frexp(exact, &exponent);
  return std::fabs(static_cast<double>(value) - exact) / std::ldexp(1.0, exponent - 24);
}

TEST(scalar_math, exp_is_within_its_bound_over_all_exponents) {
  double worst = 0;
  for (std::uint32_t bits = 0; bits < 0x42b00000U; bits += 499) { // 0 .. 88
    for (float x : {std::bit_cast<float>(bits), -std::bit_cast<float>(bits)}) {
      if (x < exp_constants::lowest) continue;
      worst = std::max(worst, ulps(exp_reference(x), std::exp(static_cast<double>(x))));
    }
  }
  RecordProperty("worst_ulps", std::to_string(worst));
  EXPECT_LT(worst, 1.1);
}

TEST(scalar_math, exp_of_zero_is_one_and_of_the_far_ends_zero_and_infinity) {
  EXPECT_EQ(exp_reference(0.0F), 1.0F);
  EXPECT_EQ(exp_reference(-0.0F), 1.0F);
  EXPECT_EQ(exp_reference(-87.31F), 0.0F);
  EXPECT_EQ(exp_reference(-std::numeric_limits<float>::infinity()), 0.0F);
  EXPECT_EQ(exp_reference(88.38F), std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(exp_reference(std::numeric_limits<float>::quiet_NaN())));
}

TEST(scalar_math, tanh_is_within_its_bound_odd_and_saturates) {
  double worst = 0;
  for (std::uint32_t bits = 0x30000000U; bits < 0x42b00000U; bits += 499) {
    const float x = std::bit_cast<float>(bits);
    worst = std::max(worst, ulps(tanh_reference(x), std::tanh(static_cast<double>(x))));
    ASSERT_EQ(tanh_reference(-x), -tanh_reference(x));
  }
  RecordProperty("worst_ulps", std::to_string(worst));
  EXPECT_LT(worst, 1.4);
  EXPECT_EQ(tanh_reference(1000.0F), 1.0F);
  EXPECT_EQ(tanh_reference(0.0F), 0.0F);
}

} // namespace
} // namespace paceline::device
