#include "server/log_throttle.hpp"

#include <gtest/gtest.h>

namespace paceline::server {
namespace {

using namespace std::chrono_literals;

TEST(log_throttle, lets_a_line_through_in_an_interval_and_counts_the_others) {
  log_throttle throttle(10s);
  log_throttle::time_point now{};
  EXPECT_EQ(throttle.note(now), 1U);
  EXPECT_EQ(throttle.note(now + 1s), std::nullopt);
  EXPECT_EQ(throttle.note(now + 9s), std::nullopt);
  EXPECT_EQ(throttle.note(now + 10s), 3U);
  EXPECT_EQ(throttle.note(now + 11s), std::nullopt);
}

} // namespace
} // namespace paceline::server
