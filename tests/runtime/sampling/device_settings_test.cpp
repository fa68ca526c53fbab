#include "runtime/sampling/pipeline.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace paceline::sampling {
namespace {

std::optional<device::token_choice> settings_of(const sampling_params& params, const stop_params& stop = {},
                                                const row_context& row = {}) {
  std::vector<device::penalised_token> counts;
  return pipeline(params, stop).settings_for_device(row, 1000, counts);
}

TEST(settings_for_device, there_are_none_where_more_tokens_are_kept_than_a_device_ranks) {
  EXPECT_TRUE(settings_of({}));
  EXPECT_TRUE(settings_of({.min_p = 0.1F}));
  EXPECT_FALSE(settings_of({.top_k = 129}));
  EXPECT_FALSE(settings_of({.top_k = 999, .top_p = 0.99F}));
  EXPECT_TRUE(settings_of({.top_k = 1000})) << "keeps them all";
  EXPECT_FALSE(settings_of({.top_k = 1000, .top_p = 0.99F}));
  EXPECT_FALSE(settings_of({.top_p = 0.99F}));
  EXPECT_FALSE(settings_of({.top_k = -1, .top_p = 0.99F}));
  EXPECT_TRUE(settings_of({.temperature = 0, .top_p = 0.5F})) << "the best is kept in any case";
}

TEST(settings_for_device, a_small_top_k_is_handed_over_and_top_p_with_it) {
  const auto settings = settings_of({.top_k = 128, .top_p = 0.25F, .min_p = 0.1F});
  ASSERT_TRUE(settings);
  EXPECT_EQ(settings->top_k, 128U);
  EXPECT_EQ(settings->top_p, 0.25F);
  EXPECT_GT(settings->min_score, -10.0F);
  EXPECT_EQ(settings_of({.top_k = 1})->top_k, 1U);
  EXPECT_EQ(settings_of({.top_k = 1})->top_p, 1.0F);
  EXPECT_EQ(settings_of({})->top_k, 0U);
  const auto greedy = settings_of({.temperature = 0, .top_k = 3, .top_p = 0.5F});
  EXPECT_EQ(greedy->top_k, 0U);
  EXPECT_EQ(greedy->top_p, 1.0F);
}

TEST(settings_for_device, removed_tokens_come_back_when_the_output_is_long_enough) {
  const stop_params stop{.min_tokens = 5, .eos_ids = {token_id{7}}, .stop_ids = {token_id{3}}};
  const auto settings = settings_of({}, stop, {.output_index = 2});
  EXPECT_EQ(settings->num_removing, 3U);
  EXPECT_EQ(settings_of({}, stop, {.output_index = 5})->num_removing, 0U);
  EXPECT_EQ(settings_of({}, stop, {.output_index = 9})->num_removing, 0U);
}

TEST(settings_for_device, counts_are_handed_over_with_penalties_only) {
  token_counts committed;
  committed.add_prompt(std::vector{token_id{4}});
  committed.add_output(token_id{5});
  committed.add_output(token_id{5});
  std::vector<device::penalised_token> counts;
  const row_context row{.committed = &committed};
  EXPECT_TRUE(pipeline({}, {}).settings_for_device(row, 100, counts)->counts.empty());
  const auto settings = pipeline({.presence_penalty = 1}, {}).settings_for_device(row, 100, counts);
  ASSERT_EQ(settings->counts.size(), 2U);
  EXPECT_EQ(settings->counts[0].token, token_id{4});
  EXPECT_EQ(settings->counts[0].num_output, 0U);
  EXPECT_EQ(settings->counts[1].num_output, 2U);
}

TEST(settings_for_device, min_p_is_a_bound_of_scores) {
  EXPECT_EQ(settings_of({})->min_score, -std::numeric_limits<float>::infinity());
  EXPECT_NEAR(settings_of({.min_p = 0.5F})->min_score, -0.6931472F, 1e-6);
}

} // namespace
} // namespace paceline::sampling
