#include "runtime/sampling/token_counts.hpp"

#include <gtest/gtest.h>

#include <array>

namespace paceline::sampling {
namespace {

TEST(token_counts, distinguish_prompt_from_output) {
  token_counts counts;
  constexpr std::array prompt{token_id{5}, token_id{3}, token_id{5}};
  counts.add_prompt(prompt);
  counts.add_output(token_id{3});
  counts.add_output(token_id{9});
  counts.add_output(token_id{9});
  EXPECT_EQ(counts.in_output(token_id{5}), 0U);
  EXPECT_EQ(counts.in_output(token_id{3}), 1U);
  EXPECT_EQ(counts.in_output(token_id{9}), 2U);
  EXPECT_EQ(counts.in_output(token_id{1}), 0U);
  EXPECT_TRUE(counts.in_context(token_id{5}));
  EXPECT_TRUE(counts.in_context(token_id{9}));
  EXPECT_FALSE(counts.in_context(token_id{1}));
  ASSERT_EQ(counts.entries().size(), 3U);
  EXPECT_TRUE(counts.entries()[0].prompt);
  EXPECT_FALSE(counts.entries()[2].prompt);
}

} // namespace
} // namespace paceline::sampling
