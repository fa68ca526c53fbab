#include "runtime/model/norm_outliers.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <limits>
#include <vector>

namespace paceline::model {
namespace {

/// Blocks of 32 ones, the first `num_spiky` of which have one value of `peak`.
std::vector<float> norm_of(std::size_t num_blocks, std::size_t num_spiky, float peak) {
  std::vector<float> weights(32 * num_blocks, 1.0F);
  for (std::size_t b = 0; b < num_spiky; ++b) weights[32 * b + 5 * b % 32] = peak;
  return weights;
}

TEST(norm_outliers, half_of_the_blocks_decide) {
  EXPECT_TRUE(singles_out_values(norm_of(4, 2, outlier_ratio)));
  EXPECT_FALSE(singles_out_values(norm_of(4, 1, 100)));
  EXPECT_TRUE(singles_out_values(norm_of(5, 3, -10)));
  EXPECT_FALSE(singles_out_values(norm_of(5, 2, -10)));
}

TEST(norm_outliers, a_value_counts_from_the_ratio_on) {
  EXPECT_FALSE(singles_out_values(norm_of(4, 4, outlier_ratio * 0.99F)));
  EXPECT_TRUE(singles_out_values(norm_of(4, 4, -outlier_ratio)));
}

TEST(norm_outliers, values_that_are_not_finite_and_blocks_of_zeros_do_not_count) {
  EXPECT_FALSE(singles_out_values(norm_of(2, 2, std::numeric_limits<float>::quiet_NaN())));
  EXPECT_FALSE(singles_out_values(norm_of(2, 2, std::numeric_limits<float>::infinity())));
  EXPECT_FALSE(singles_out_values(std::vector<float>(64, 0.0F)));
  EXPECT_FALSE(singles_out_values(std::vector<float>(31, 1.0F)));
  EXPECT_FALSE(singles_out_values({}));
}

} // namespace
} // namespace paceline::model
