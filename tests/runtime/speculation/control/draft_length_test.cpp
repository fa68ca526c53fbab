#include "runtime/speculation/control/draft_length.hpp"

#include "tests/runtime/speculation/control/cost_curves.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <random>

namespace paceline::speculation {
namespace {

TEST(draft_length, stays_where_it_is_by_rule_fixed) {
  draft_length length(length_rule::fixed, 5);
  const auto cost = straight(1);
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(length.next(cost, 0, 1), 5U);
    length.on_verified(5, 0);
  }
}

TEST(draft_length, grows_by_two_and_shrinks_by_one_by_rule_heuristic) {
  draft_length length(length_rule::heuristic, 6);
  const auto cost = straight(1);
  const auto after = [&](std::uint32_t drafted, std::uint32_t kept) {
    length.on_verified(drafted, kept);
    return length.next(cost, 0, 1);
  };
  EXPECT_EQ(length.next(cost, 0, 1), 6U);
  EXPECT_EQ(after(6, 5), 5U);
  EXPECT_EQ(after(5, 0), 4U);
  EXPECT_EQ(after(4, 4), 6U);
  EXPECT_EQ(after(6, 6), 6U) << "never beyond the most";
  for (int i = 0; i < 10; ++i) after(3, 1);
  EXPECT_EQ(length.next(cost, 0, 1), 1U) << "never below one";
}

TEST(draft_length, is_the_one_of_the_largest_expected_speed_up_by_rule_optimal) {
  std::mt19937_64 random(5);
  for (const double acceptance : {0.3, 0.6, 0.9})
    for (const double slope : {0.05, 0.3}) {
      draft_length length(length_rule::optimal, 12);
      const auto cost = straight(slope);
      std::bernoulli_distribution kept(acceptance);
      double sum = 0;
      for (int i = 0; i < 4000; ++i) {
        const auto k = length.next(cost, 0.02, 1);
        sum += k;
        std::uint32_t accepted = 0;
        while (accepted < k && kept(random)) ++accepted;
        if (k > 0) length.on_verified(k, accepted);
      }
      std::uint32_t best = 0;
      double best_speed = 1;
      for (std::uint32_t k = 1; k <= 12; ++k) {
        double tokens = 1, reach = 1;
        for (std::uint32_t i = 0; i < k; ++i) tokens += reach *= acceptance;
        const double speed = tokens / (k * 0.02 + 1 + slope * k);
        if (speed > best_speed) best = k, best_speed = speed;
      }
      EXPECT_NEAR(sum / 4000, best, 0.35 * best + 0.6) << acceptance << " " << slope;
    }
}

/// The pass has rows of all requests: if each row costs as much as in a large pass, few tokens pay.
TEST(draft_length, is_shorter_in_a_batch_by_rule_optimal) {
  const auto cost =
      curve([](std::uint32_t rows) { return rows <= 8 ? 1.0 + 0.02 * (rows - 1) : 0.15 * rows; });
  draft_length alone(length_rule::optimal, 6), together(length_rule::optimal, 6);
  for (int i = 0; i < 200; ++i)
    for (auto* one : {&alone, &together}) one->on_verified(2, i % 3 == 0 ? 1 : 2);
  EXPECT_EQ(alone.next(cost, 0, 1), 6U);
  EXPECT_LT(together.next(cost, 0, 8), 3U);
}

/// Rule `heuristic` with trees: a draft counts as fully accepted if one of its paths is.
TEST(draft_length, compares_what_was_kept_with_the_levels) {
  draft_length length(length_rule::heuristic, 6);
  const auto cost = straight(1);
  length.on_verified(3, 1);
  length.on_verified(3, 1);
  EXPECT_EQ(length.next(cost, 0, 1), 4U);
  length.on_verified(3, 3); // of 12 nodes in 3 levels
  EXPECT_EQ(length.next(cost, 0, 1), 6U);
}

/// A tree of three nodes a level, which pays as long as only its levels are counted.
TEST(draft_length, counts_all_nodes_of_a_tree_by_rule_optimal) {
  const auto cost = straight(0.3);
  const auto rows = [](std::uint32_t levels) { return 3 * levels; };
  draft_length chain(length_rule::optimal, 6), tree(length_rule::optimal, 6);
  for (int i = 0; i < 200; ++i)
    for (auto* one : {&chain, &tree}) one->on_verified(2, i % 2 == 0 ? 1 : 2); // three of four
  EXPECT_GE(chain.next(cost, 0, 1), 2U);
  EXPECT_EQ(tree.next(cost, 0, 1, rows), 0U) << "1.75 tokens for 1.9 passes, 2.3 for 2.8, and so on";
}

/// Drafters that look tokens up may propose trees, and mostly propose chains.
TEST(draft_length, counts_as_many_nodes_as_drafts_had_by_rule_optimal) {
  const auto cost = straight(0.3);
  const auto rows = [](std::uint32_t levels) { return 3 * levels; };
  draft_length length(length_rule::optimal, 6);
  for (int i = 0; i < 200; ++i) length.on_verified(2, i % 2 == 0 ? 1 : 2, 1.0 / 3);
  EXPECT_GE(length.next(cost, 0, 1, rows), 2U);
}

TEST(draft_length, looks_again_now_and_then_where_drafting_does_not_pay) {
  draft_length length(length_rule::optimal, 8);
  const auto cost = straight(2);
  std::uint32_t drafted = 0;
  for (int i = 0; i < 640; ++i) drafted += length.next(cost, 0.5, 1);
  EXPECT_EQ(drafted, 10U);
}

TEST(entropy_length, is_short_where_the_drafter_is_unsure) {
  entropy_length length(1, 0);
  EXPECT_EQ(length.next(0, 9), 9U);
  EXPECT_EQ(length.next(0.5, 9), 5U);
  EXPECT_EQ(length.next(1, 9), 1U);
  entropy_length smooth(1, 0.75F);
  EXPECT_EQ(smooth.next(0, 9), 9U);
  EXPECT_EQ(smooth.next(1, 9), 7U) << "a quarter of the way";
}

TEST(entropy_length, falls_from_the_most_to_the_least) {
  entropy_length length(3, 0);
  EXPECT_EQ(length.next(0, 9), 9U);
  EXPECT_EQ(length.next(0.5, 9), 6U);
  EXPECT_EQ(length.next(1, 9), 3U);
  EXPECT_EQ(length.next(1, 2), 2U) << "the bound of the round comes first";
}

/// Near the end of the context, or without memory, a round drafts little; this must not affect the next one.
TEST(entropy_length, minds_the_bound_of_each_round) {
  entropy_length length(1, 0);
  EXPECT_EQ(length.next(0, 2), 2U);
  EXPECT_EQ(length.next(0, 9), 9U);
  EXPECT_EQ(length.next(1, 9), 1U);
}

TEST(normalised_entropy, is_one_of_equals_and_nothing_of_the_certain) {
  constexpr float never = -std::numeric_limits<float>::infinity();
  EXPECT_NEAR(normalised_entropy(std::vector<float>(100, 3.0F)), 1.0, 1e-9);
  EXPECT_NEAR(normalised_entropy(std::vector<float>{never, 5.0F, never}), 0.0, 1e-12);
  EXPECT_NEAR(normalised_entropy(std::vector<float>{1.0F, 1.0F, never, never}), 0.5, 1e-9);
  EXPECT_EQ(normalised_entropy(std::vector<float>{never, never}), 0.0);
}

} // namespace
} // namespace paceline::speculation
