#include "server/metrics/histogram.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace paceline::server {
namespace {

TEST(histogram, counts_at_or_below_each_bound) {
  static constexpr double bounds[] = {1, 2};
  histogram values(bounds);
  values.observe(1);
  values.observe(1.5, 3);
  values.observe(9);
  EXPECT_EQ(values.cumulative(), (std::vector<std::uint64_t>{1, 4, 5}));
  EXPECT_DOUBLE_EQ(values.sum(), 1 + 4.5 + 9);
}

TEST(histogram, bounds_ascend) {
  for (const auto bounds :
       {latency_bounds(), first_token_bounds(), token_gap_bounds(), delay_bounds(), token_count_bounds()})
    EXPECT_TRUE(std::is_sorted(bounds.begin(), bounds.end()));
  EXPECT_DOUBLE_EQ(token_gap_bounds().front(), 0.0005);
}

} // namespace
} // namespace paceline::server
