#include "runtime/speculation/verification/verification.hpp"
#include "tests/support/reference_pipeline.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <vector>

/// Rules that keep a draft token by a threshold on its probability: `typical`, and `lenient` at temperature
/// 0.
namespace paceline::speculation {
namespace {

constexpr float impossible = -std::numeric_limits<float>::infinity();

struct decision {
  explicit decision(sampling_params params = {.temperature = 1.0F, .seed = 3}) : pipeline(params, {}) {}

  verdict operator()(const speculation_params& how, const draft& proposal) {
    return verify(how, proposal,
                  {.sampling = &pipeline, .counts = &counts, .next_position = token_position{10}},
                  [this](std::int32_t node) { return std::span<float>(rows.at(node)); });
  }

  sampling::pipeline pipeline;
  sampling::token_counts counts;
  std::map<std::int32_t, std::vector<float>> rows; ///< logits by node
};

std::vector<float> logs(const std::vector<double>& probs) {
  std::vector<float> row;
  for (const double prob : probs) row.push_back(prob > 0 ? static_cast<float>(std::log(prob)) : impossible);
  return row;
}

draft one_of(std::int32_t token) {
  draft proposal;
  proposal.tree.add(token_id{token}, token_tree::root);
  return proposal;
}

TEST(verify_typical, keeps_what_has_enough_probability_for_the_rows_entropy) {
  // Entropy of the first row: 1.05 nats, e^-1.05 = 0.35; with delta 0.3 a token needs 0.105.
  const std::vector<double> spread{0.5, 0.3, 0.11, 0.09};
  double entropy = 0;
  for (const double prob : spread) entropy -= prob * std::log(prob);
  const double needed = 0.3 * std::exp(-entropy);
  ASSERT_GT(needed, 0.09);
  ASSERT_LT(needed, 0.11);
  const auto keeps = [&](std::int32_t token, float epsilon, float delta) {
    decision decide;
    decide.rows = {{-1, logs(spread)}, {0, logs(spread)}};
    return !decide({.rule = verification_rule::typical, .epsilon = epsilon, .delta = delta}, one_of(token))
                .accepted_path.empty();
  };
  EXPECT_TRUE(keeps(2, 1.0F, 0.3F));
  EXPECT_FALSE(keeps(3, 1.0F, 0.3F));
  EXPECT_TRUE(keeps(3, 0.085F, 0.3F)) << "the lower of both bounds counts";
  EXPECT_FALSE(keeps(3, 0.095F, 0.3F));
  EXPECT_TRUE(keeps(3, 1.0F, 0.25F));
}

TEST(verify_typical, sees_the_processed_distribution) {
  sampling_params cut{.temperature = 1.0F, .top_k = 2};
  decision decide(cut);
  decide.rows = {{-1, logs({0.4, 0.35, 0.25})}, {0, logs({0.4, 0.35, 0.25})}};
  const auto result =
      decide({.rule = verification_rule::typical, .epsilon = 0.01F, .delta = 1.0F}, one_of(2));
  EXPECT_TRUE(result.accepted_path.empty());
  EXPECT_LT(result.next.value, 2);
  EXPECT_FALSE(result.bonus);
}

TEST(verify_typical, takes_the_deepest_path_and_of_equals_the_likeliest) {
  draft proposal;
  proposal.tree.add(token_id{1}, token_tree::root); // 0: likely, nothing good below
  proposal.tree.add(token_id{2}, token_tree::root); // 1: less likely, deeper
  proposal.tree.add(token_id{0}, 0);                // 2: not typical
  proposal.tree.add(token_id{2}, 1);                // 3: as deep as the next one, less likely
  proposal.tree.add(token_id{1}, 1);                // 4
  proposal.tree.add(token_id{1}, 2);                // 5: typical below what is not
  const auto flat = logs({0.02, 0.6, 0.38});
  decision decide;
  for (std::int32_t node = -1; node < 6; ++node) decide.rows[node] = flat;
  decide.rows[4] = logs({1, 0, 0});
  const auto result = decide({.rule = verification_rule::typical}, proposal);
  EXPECT_EQ(result.accepted_path, (std::vector<std::int32_t>{1, 4}));
  EXPECT_EQ(result.next, token_id{0});
  EXPECT_TRUE(result.bonus);
}

TEST(verify_typical, samples_the_next_token_as_plain_decoding_would) {
  for (std::uint32_t seed = 0; seed < 300; ++seed) {
    decision decide({.temperature = 1.0F, .seed = seed});
    const std::vector<float> row{0.3F, -0.2F, 0.5F, -9.0F};
    decide.rows = {{-1, row}, {0, row}};
    std::vector<float> copy = row;
    const token_id own = decide.pipeline.process_and_sample(copy, {.position = token_position{10}});
    const auto result = decide({.rule = verification_rule::typical}, one_of(3));
    ASSERT_TRUE(result.accepted_path.empty());
    ASSERT_EQ(result.next, own);
  }
}

TEST(verify_typical, at_temperature_0_keeps_the_argmax_only) {
  decision decide({.temperature = 0.0F});
  decide.rows = {{-1, {1.0F, 1.01F, 0.0F}}, {0, {5.0F, 0.0F, 0.0F}}};
  EXPECT_TRUE(decide({.rule = verification_rule::typical}, one_of(0)).accepted_path.empty());
  decide.rows = {{-1, {1.0F, 1.01F, 0.0F}}, {0, {5.0F, 0.0F, 0.0F}}};
  const auto result = decide({.rule = verification_rule::typical, .epsilon = 1, .delta = 1}, one_of(1));
  EXPECT_EQ(result.accepted_path.size(), 1U);
  EXPECT_EQ(result.next, token_id{0});
}

TEST(verify_leniently, at_temperature_0_keeps_what_is_nearly_as_likely_as_the_likeliest) {
  const auto keeps = [](std::int32_t token, float lenience, sampling_params params = {.temperature = 0.0F}) {
    decision decide(params);
    decide.rows = {{-1, logs({0.5, 0.26, 0.24})}, {0, logs({0.1, 0.1, 0.8})}};
    const auto result = decide({.rule = verification_rule::lenient, .lenience = lenience}, one_of(token));
    EXPECT_EQ(result.next, token_id{result.accepted_path.empty() ? 0 : 2}) << "the argmax of the last row";
    return !result.accepted_path.empty();
  };
  EXPECT_TRUE(keeps(0, 1.0F));
  EXPECT_FALSE(keeps(1, 1.0F));
  EXPECT_TRUE(keeps(1, 0.5F)) << "0.26 is more than half of 0.5";
  EXPECT_FALSE(keeps(2, 0.5F));
  EXPECT_TRUE(keeps(2, 0.45F));
  EXPECT_TRUE(keeps(2, 0.45F, {.temperature = 0.0F, .top_k = 1})) << "temperature 0 has no truncation";
}

TEST(verify_leniently, sees_bias_and_penalties) {
  decision decide({.temperature = 0.0F, .logit_bias = {{token_id{1}, 5.0F}}});
  decide.rows = {{-1, {0.0F, 0.0F, 4.9F}}, {0, {0.0F, -9.0F, 0.0F}}};
  const auto result = decide({.rule = verification_rule::lenient, .lenience = 0.9F}, one_of(2));
  EXPECT_EQ(result.accepted_path.size(), 1U) << "e^-0.1 is above 0.9";
  decide.rows = {{-1, {0.0F, 0.0F, 4.8F}}};
  EXPECT_TRUE(
      decide({.rule = verification_rule::lenient, .lenience = 0.9F}, one_of(2)).accepted_path.empty());
}

TEST(threshold_rules, a_row_without_finite_logits_ends_the_path) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const float temperature : {0.0F, 1.0F})
    for (const auto rule : {verification_rule::typical, verification_rule::lenient}) {
      decision decide({.temperature = temperature});
      decide.rows = {{-1, {9.0F, 0.0F}}, {0, {nan, nan}}, {1, {1.0F, 0.0F}}};
      draft proposal = one_of(0);
      proposal.tree.add(token_id{0}, 0);
      const auto result = decide({.rule = rule}, proposal);
      EXPECT_EQ(result.accepted_path, (std::vector<std::int32_t>{0}));
      EXPECT_TRUE(result.hopeless);
      EXPECT_FALSE(result.bonus);
    }
}

} // namespace
} // namespace paceline::speculation
