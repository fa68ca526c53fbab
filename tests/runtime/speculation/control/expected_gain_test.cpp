#include "runtime/speculation/control/expected_gain.hpp"

#include "runtime/speculation/verification/verification.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <vector>

namespace paceline::speculation {
namespace {

/// Table 1 of Leviathan et al. 2023 (a drafter without cost), which prints two decimals.
TEST(expected_gain, gives_the_published_table_of_speed_and_operations) {
  struct line {
    double acceptance;
    std::uint32_t length;
    double operations;
    double speed_up;
  };
  constexpr std::array table{line{0.6, 2, 1.53, 1.96}, line{0.7, 3, 1.58, 2.53}, line{0.8, 2, 1.23, 2.44},
                             line{0.8, 5, 1.63, 3.69}, line{0.9, 2, 1.11, 2.71}, line{0.9, 10, 1.60, 6.86}};
  for (const line& one : table) {
    EXPECT_NEAR(operations_factor(one.acceptance, one.length, 0), one.operations, 0.0051);
    EXPECT_NEAR(expected_speed_up(one.acceptance, one.length, 0), one.speed_up, 0.0051);
    EXPECT_EQ(expected_speed_up(one.acceptance, one.length, 0), expected_tokens(one.acceptance, one.length));
  }
}

/// The expected column of table 4. Its inputs are rounded to two digits, hence the tolerance.
TEST(expected_gain, gives_the_published_expectations_for_real_drafters) {
  struct line {
    std::uint32_t length;
    double acceptance;
    double draft_cost;
    double speed_up;
  };
  constexpr std::array table{line{7, 0.75, 0.02, 3.2}, line{7, 0.8, 0.04, 3.3},  line{7, 0.82, 0.11, 2.5},
                             line{7, 0.62, 0.02, 2.3}, line{5, 0.68, 0.04, 2.4}, line{3, 0.71, 0.11, 2.0},
                             line{5, 0.65, 0.02, 2.4}, line{5, 0.73, 0.04, 2.6}, line{3, 0.74, 0.11, 2.0},
                             line{5, 0.53, 0.02, 1.9}, line{3, 0.55, 0.04, 1.8}, line{3, 0.56, 0.11, 1.6}};
  for (const line& one : table)
    EXPECT_NEAR(expected_speed_up(one.acceptance, one.length, one.draft_cost), one.speed_up, 0.07);
}

TEST(expected_gain, agrees_with_the_closed_form_and_has_its_limits) {
  for (const double acceptance : {0.0, 0.1, 0.5, 0.93, 0.999})
    for (const std::uint32_t length : {0U, 1U, 5U, 40U})
      EXPECT_NEAR(expected_tokens(acceptance, length),
                  (1 - std::pow(acceptance, length + 1)) / (1 - acceptance), 1e-10);
  EXPECT_EQ(expected_tokens(1.0, 7), 8.0);
  EXPECT_EQ(expected_tokens(0.0, 7), 1.0);
  EXPECT_EQ(expected_speed_up(0.7, 0, 0.3), 1.0);
  EXPECT_DOUBLE_EQ(expected_speed_up(1.0, 3, 0.25, 1.25), 4.0 / 2.0);
  EXPECT_DOUBLE_EQ(operations_factor(0.5, 1, 0.5), 2.5 / 1.5);
}

TEST(expected_gain, of_two_groups_is_what_their_streams_leave) {
  EXPECT_DOUBLE_EQ(groups_gain({8, 4}, {4, 4}, {4, 4}), 12.0 / 8.0) << "passes by rows: drafts are hidden";
  EXPECT_DOUBLE_EQ(groups_gain({8, 2}, {8, 2}, {8, 2}), 10.0 / 16.0) << "weights are read twice";
  EXPECT_DOUBLE_EQ(groups_gain({8, 6}, {3, 5}, {3, 4}), 14.0 / 9.0)
      << "the drafter's stream is the longer one";
  EXPECT_DOUBLE_EQ(groups_gain({9, 4}, {6, 4}, {3, 4}), 13.0 / 10.0)
      << "neither stream is full: the larger group decides";
  EXPECT_DOUBLE_EQ(groups_gain({9, 4}, {3, 4}, {6, 4}), 13.0 / 10.0) << "whichever it is";
  EXPECT_DOUBLE_EQ(groups_gain({8, 4}, {4, 4}, {4, 4}, 1), 13.0 / 9.0) << "the gap is a group's own";
  EXPECT_DOUBLE_EQ(groups_gain({8, 4}, {8, 1}, {8, 1}, 1), 13.0 / 16.0) << "the other group fills it";
  EXPECT_EQ(groups_gain({}, {}, {}), 1);
}

/// Acceptance of a rule over rounds with one target row and one draft row, whatever the context.
struct measured {
  double by_counting = 0;
  double tokens_a_round = 0;
};
measured count_rounds(const std::vector<float>& target, const std::vector<float>& drafted,
                      std::uint32_t length, verification_rule rule) {
  constexpr std::uint32_t num_rounds = 200000;
  std::vector<std::uint32_t> histogram(length + 1);
  std::uint64_t committed = 0;
  std::vector<float> scores = drafted;
  const draft_distribution from = [&] {
    EXPECT_TRUE(sampling::pipeline({}, {}).process(scores, {}));
    return truncated_distribution(scores);
  }();
  for (std::uint32_t round = 0; round < num_rounds; ++round) {
    const sampling::pipeline pipeline({.seed = round}, {});
    draft proposal;
    for (std::uint32_t i = 0; i < length; ++i) {
      proposal.tree.add(
          draw(from, pipeline.noise(noise_purpose::draft, token_position{i}, draft_place(i, 0))),
          static_cast<std::int32_t>(i) - 1);
      proposal.probs.push_back(from);
    }
    std::vector<std::vector<float>> rows(length + 1, target);
    const auto result =
        verify({.rule = rule}, proposal, {.sampling = &pipeline, .next_position = token_position{0}},
               [&](std::int32_t node) { return std::span(rows[static_cast<std::size_t>(node + 1)]); });
    ++histogram[result.accepted_path.size()];
    committed += result.accepted_path.size() + 1;
  }
  return {counted_acceptance(histogram), static_cast<double>(committed) / num_rounds};
}

TEST(expected_gain, acceptance_by_definition_by_counting_and_by_tokens_a_round_agree) {
  const std::vector<float> target{0.7F, 0.2F, -0.4F, -0.5F};
  for (const auto& drafted :
       {std::vector<float>{-0.7F, -0.2F, 0.4F, 0.5F}, std::vector<float>{0.6F, 0.3F, -0.1F, 0.0F}}) {
    const auto probs = [](const std::vector<float>& logits) {
      std::vector<double> result;
      double sum = 0;
      for (const float logit : logits) sum += std::exp(static_cast<double>(logit));
      for (const float logit : logits) result.push_back(std::exp(static_cast<double>(logit)) / sum);
      return result;
    };
    const double alpha = expected_acceptance(probs(target), probs(drafted));
    for (const std::uint32_t length : {1U, 4U}) {
      const auto got = count_rounds(target, drafted, length, verification_rule::rejection);
      std::printf("length %u: alpha %.4f by E[min], %.4f by counting; %.4f tokens a round, %.4f expected\n",
                  length, alpha, got.by_counting, got.tokens_a_round, expected_tokens(alpha, length));
      EXPECT_NEAR(got.by_counting, alpha, 0.006); // five standard deviations of the shortest count
      EXPECT_NEAR(got.tokens_a_round, expected_tokens(alpha, length), 0.015);
    }
  }
  const std::array<double, 2> halves{0.5, 0.5};
  EXPECT_EQ(expected_acceptance(halves, halves), 1.0);
}

TEST(expected_gain, tokens_behind_a_rejection_are_not_counted) {
  const std::array<std::uint32_t, 4> histogram{1, 2, 0, 4}; // 14 kept, 3 rejected
  EXPECT_DOUBLE_EQ(counted_acceptance(histogram), 14.0 / 17.0);
  EXPECT_EQ(counted_acceptance(std::span<const std::uint32_t>{}), 0.0);
  EXPECT_EQ(counted_acceptance(std::array<std::uint32_t, 1>{5}), 0.0);
}

TEST(expected_gain, block_verification_commits_more_than_the_formula_of_token_by_token) {
  const auto got =
      count_rounds({0.7F, 0.2F, -0.4F, -0.5F}, {-0.7F, -0.2F, 0.4F, 0.5F}, 4, verification_rule::block);
  const auto by_token =
      count_rounds({0.7F, 0.2F, -0.4F, -0.5F}, {-0.7F, -0.2F, 0.4F, 0.5F}, 4, verification_rule::rejection);
  EXPECT_GT(got.tokens_a_round, by_token.tokens_a_round * 1.02);
}

TEST(expected_gain, speculation_pays_exactly_where_acceptance_exceeds_the_drafters_cost) {
  // Corollary 3.9.
  EXPECT_EQ(optimal_length(0.5, 0.6, 20U), 0U);
  EXPECT_EQ(optimal_length(0.5, 0.5, 20U), 0U);
  EXPECT_GE(optimal_length(0.51, 0.5, 20U), 1U);
  EXPECT_EQ(optimal_length(0.0, 0.0, 20U), 0U);
  EXPECT_EQ(optimal_length(1.0, 0.1, 20U), 20U);
  EXPECT_EQ(optimal_length(0.9, 0.1, 0U), 0U);
}

TEST(expected_gain, the_optimal_length_is_the_best_of_all) {
  for (double acceptance = 0.05; acceptance < 1.0; acceptance += 0.05)
    for (double cost = 0.0; cost < 0.5; cost += 0.03) {
      const std::uint32_t best = optimal_length(acceptance, cost, 16U);
      for (std::uint32_t length = 0; length <= 16; ++length)
        EXPECT_LE(expected_speed_up(acceptance, length, cost),
                  expected_speed_up(acceptance, best, cost) + 1e-15);
    }
}

TEST(expected_gain, a_measured_cost_curve_shortens_the_draft) {
  const std::array flat{1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0};
  std::array steep = flat;
  for (std::size_t i = 4; i < steep.size(); ++i)
    steep[i] = 2.0; // from five rows on the pass takes twice as long
  EXPECT_EQ(optimal_length(0.8, 0.05, flat), optimal_length(0.8, 0.05, 8U));
  EXPECT_EQ(optimal_length(0.8, 0.05, steep), 3U);
  EXPECT_EQ(optimal_length(0.8, 0.05, std::span<const double>{}), 0U);
}

TEST(oracle_speed_up, is_the_mean_of_tokens_where_rows_cost_nothing) {
  const std::vector<std::uint64_t> histogram{2, 0, 5, 3}; // 10 rounds, 19 draft tokens right
  const std::vector<double> free(4, 1.0);
  EXPECT_DOUBLE_EQ(oracle_speed_up(histogram, 0, free), 2.9);
  EXPECT_DOUBLE_EQ(oracle_speed_up(histogram, 0, std::span(free).first(3)), 2.6)
      << "two draft tokens at most";
}

TEST(oracle_speed_up, is_one_where_every_row_costs_a_pass) {
  const std::vector<std::uint64_t> histogram{2, 0, 5, 3};
  EXPECT_DOUBLE_EQ(oracle_speed_up(histogram, 0, std::vector<double>{1, 2, 3, 4}), 1.0);
  EXPECT_DOUBLE_EQ(oracle_speed_up(histogram, 0.5, std::vector<double>{1, 1.6, 2.2, 2.8}), 1.0);
  EXPECT_DOUBLE_EQ(oracle_speed_up({}, 0, std::vector<double>{1}), 1.0);
}

TEST(oracle_speed_up, stops_where_a_further_token_costs_more_than_it_brings) {
  // The third row is dear: of rounds with two right tokens one is drafted.
  const std::vector<std::uint64_t> histogram{0, 0, 10};
  EXPECT_DOUBLE_EQ(oracle_speed_up(histogram, 0, std::vector<double>{1, 1.1, 3}), 2 / 1.1);
}

TEST(oracle_speed_up, no_fixed_length_is_faster_with_the_same_drafts) {
  for (const double acceptance : {0.2, 0.5, 0.8, 0.95})
    for (const double slope : {0.02, 0.2, 0.6})
      for (const double draft_cost : {0.0, 0.1}) {
        constexpr std::uint32_t longest = 8;
        std::vector<std::uint64_t> histogram;
        std::vector<double> costs;
        for (std::uint32_t j = 0; j <= longest; ++j) {
          const double right = std::pow(acceptance, j) * (j < longest ? 1 - acceptance : 1);
          histogram.push_back(static_cast<std::uint64_t>(1e9 * right));
          costs.push_back(1 + slope * j);
        }
        const double oracle = oracle_speed_up(histogram, draft_cost, costs);
        for (std::uint32_t length = 0; length <= longest; ++length)
          EXPECT_GE(oracle, expected_speed_up(acceptance, length, draft_cost, costs[length]) * (1 - 1e-6))
              << "acceptance " << acceptance << ", slope " << slope << ", length " << length;
      }
}

} // namespace
} // namespace paceline::speculation
