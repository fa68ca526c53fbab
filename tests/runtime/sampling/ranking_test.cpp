#include "runtime/sampling/pipeline.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

namespace paceline::sampling {
namespace {

std::vector<float> random_row(std::size_t size, std::mt19937_64& random) {
  std::vector<float> row(size);
  for (float& x : row) x = static_cast<float>(random() % 100000) / 9000.0F;
  return row;
}

/// Every parameter set ranks `choose`'s token first.
TEST(ranking, begins_with_the_choice_whatever_the_parameters) {
  std::mt19937_64 random(11);
  for (std::uint32_t round = 0; round < 400; ++round) {
    SCOPED_TRACE(::testing::Message() << "seed 11 round " << round);
    sampling_params params{.temperature = round % 4 == 0 ? 0.0F : 0.7F, .seed = random()};
    if (round % 3 == 1) params.top_k = 7;
    if (round % 5 == 1) params.top_p = 0.8F;
    if (round % 7 == 1) params.repetition_penalty = 1.3F;
    const pipeline one(params, {});
    token_counts counts;
    counts.add_output(token_id{3});
    const row_context row{.committed = &counts, .position = token_position{round}};
    const std::vector<float> logits = random_row(1 + random() % 300, random);
    auto scratch = logits;
    const choice chosen = one.choose(scratch, row);
    scratch = logits;
    std::vector<ranked_token> ranked;
    one.rank_choices(scratch, row, 5, ranked);
    ASSERT_FALSE(ranked.empty());
    EXPECT_EQ(ranked[0].token, chosen.token);
    EXPECT_LE(ranked.size(), 5U);
    float sum = 0;
    for (std::size_t i = 0; i < ranked.size(); ++i) {
      sum += ranked[i].weight;
      if (i > 0) {
        EXPECT_LE(ranked[i].weight, ranked[i - 1].weight);
      }
    }
    EXPECT_LE(sum, 1.0001F);
  }
}

TEST(ranking, under_noise_is_the_order_of_score_and_noise) {
  std::mt19937_64 random(12);
  const pipeline one({.temperature = 1.0F, .seed = 5}, {});
  for (std::uint32_t round = 0; round < 100; ++round) {
    SCOPED_TRACE(::testing::Message() << "seed 12 round " << round);
    const std::vector<float> logits = random_row(200, random);
    const token_position position{round};
    auto scores = logits;
    ASSERT_TRUE(one.process(scores, {.position = position}));
    std::vector<std::pair<double, std::int32_t>> all;
    for (std::int32_t id = 0; id < 200; ++id)
      all.emplace_back(-(static_cast<double>(scores[static_cast<std::size_t>(id)]) +
                         one.noise(noise_purpose::target, position).gumbel(token_id{id})),
                       id);
    std::sort(all.begin(), all.end());
    auto scratch = logits;
    std::vector<ranked_token> ranked;
    one.rank_choices(scratch, {.position = position}, 12, ranked);
    ASSERT_EQ(ranked.size(), 12U);
    for (std::size_t i = 0; i < 12; ++i) EXPECT_EQ(ranked[i].token.value, all[i].second) << i;
  }
}

TEST(ranking, without_noise_weights_are_probabilities) {
  std::vector<float> row{1.0F, 3.0F, 2.0F, -std::numeric_limits<float>::infinity(), std::nanf("")};
  std::vector<ranked_token> ranked;
  const pipeline greedy({.temperature = 0.0F}, {});
  greedy.rank_likeliest(row, {}, 10, ranked);
  ASSERT_EQ(ranked.size(), 3U) << "tokens that cannot be are not ranked";
  const double total = std::exp(1.0) + std::exp(2.0) + std::exp(3.0);
  EXPECT_EQ(ranked[0].token, token_id{1});
  EXPECT_NEAR(ranked[0].weight, std::exp(3.0) / total, 1e-6);
  EXPECT_EQ(ranked[2].token, token_id{0});
  EXPECT_NEAR(ranked[2].weight, std::exp(1.0) / total, 1e-6);
  const pipeline warm({.temperature = 0.5F, .seed = 9}, {});
  row = {1.0F, 3.0F, 2.0F};
  warm.rank_likeliest(row, {}, 1, ranked);
  ASSERT_EQ(ranked.size(), 1U);
  EXPECT_EQ(ranked[0].token, token_id{1});
  EXPECT_NEAR(ranked[0].weight, std::exp(6.0) / (std::exp(2.0) + std::exp(4.0) + std::exp(6.0)), 1e-6);
}

TEST(ranking, a_hopeless_row_ranks_nothing) {
  const float none = -std::numeric_limits<float>::infinity();
  for (const float temperature : {0.0F, 1.0F}) {
    std::vector<float> row{none, none};
    std::vector<ranked_token> ranked{{token_id{1}, 1.0F}};
    const pipeline one({.temperature = temperature}, {});
    one.rank_choices(row, {}, 3, ranked);
    EXPECT_TRUE(ranked.empty());
    row = {none, none};
    ranked = {{token_id{1}, 1.0F}};
    one.rank_likeliest(row, {}, 3, ranked);
    EXPECT_TRUE(ranked.empty());
  }
}

} // namespace
} // namespace paceline::sampling
