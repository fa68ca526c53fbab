#include "apps/commands/run_request.hpp"

#include <gtest/gtest.h>

namespace paceline::apps {
namespace {

TEST(settle_seed, a_seed_that_was_given_stays) {
  run_options options;
  options.seed = 7;
  settle_seed(options);
  EXPECT_EQ(make_request(options, {}).sampling.seed, 7U);
}

TEST(settle_seed, a_seed_is_drawn_and_told) {
  run_options options;
  options.seed.reset();
  testing::internal::CaptureStderr();
  settle_seed(options);
  const auto told = testing::internal::GetCapturedStderr();
  ASSERT_TRUE(options.seed);
  EXPECT_NE(told.find("--seed " + std::to_string(*options.seed) + " "), std::string::npos) << told;
}

} // namespace
} // namespace paceline::apps
