#include "apps/commands/run_request.hpp"

#include <gtest/gtest.h>

namespace paceline::apps {
namespace {

constexpr const char* advice = "more room";

generation_request request_of(const run_options& options, std::size_t prompt_length = 1,
                              std::uint32_t context_length = 100) {
  return *make_request(options, std::vector<token_id>(prompt_length), context_length, advice);
}

TEST(make_request, the_output_ends_where_the_context_does) {
  run_options options;
  options.max_tokens = 40;
  EXPECT_EQ(request_of(options, 10).stop.max_tokens, 40U);
  EXPECT_EQ(request_of(options, 60).stop.max_tokens, 40U);
  EXPECT_EQ(request_of(options, 70).stop.max_tokens, 30U);
  EXPECT_EQ(request_of(options, 99).stop.max_tokens, 1U);
}

TEST(make_request, a_prompt_that_leaves_no_room_is_an_error_with_advice) {
  const auto made = make_request({}, std::vector<token_id>(100), 100, advice);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code(), errc::context_length_exceeded);
  EXPECT_EQ(made.error().message(),
            "the prompt's 100 tokens leave no room in the context of 100: use more room");
}

TEST(cut_notice, names_what_was_the_limit) {
  EXPECT_EQ(cut_notice(40, 40, advice), "[cut at 40 tokens; -n allows more]\n");
  EXPECT_EQ(cut_notice(30, 40, advice), "[cut at 30 tokens, where the context ends: use more room]\n");
}

TEST(settle_seed, a_seed_that_was_given_stays) {
  run_options options;
  options.seed = 7;
  settle_seed(options);
  EXPECT_EQ(request_of(options).sampling.seed, 7U);
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
