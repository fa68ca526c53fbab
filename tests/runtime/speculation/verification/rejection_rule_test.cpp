#include "runtime/speculation/verification/rejection_rule.hpp"

#include "runtime/base/portable_math.hpp"
#include "runtime/sampling/pipeline.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

namespace paceline::speculation {
namespace {

/// Random distributions with difficult cases: zeros, one-hot, nearly equal, tiny tails.
std::vector<double> random_probs(std::mt19937_64& engine, std::size_t size) {
  std::uniform_real_distribution<double> uniform(0, 1);
  std::vector<double> probs(size, 0.0);
  switch (engine() % 5) {
  case 0:
    probs[engine() % size] = 1;
    break;
  case 1:
    for (double& prob : probs) prob = engine() % 2 == 0 ? 0.0 : uniform(engine);
    break;
  case 2:
    for (double& prob : probs) prob = std::exp(-40 * uniform(engine));
    break;
  default:
    for (double& prob : probs) prob = uniform(engine);
  }
  double sum = 0;
  for (const double prob : probs) sum += prob;
  if (sum == 0) probs[0] = sum = 1;
  for (double& prob : probs) prob /= sum;
  return probs;
}

/// Largest deviation over tokens of (draft_prob * accept + rejection mass * residual) from target_prob.
template <class Real>
double deviation(const std::vector<Real>& target, const std::vector<Real>& drafted) {
  Real rejected = 0;
  Real residual_sum = 0;
  for (std::size_t i = 0; i < target.size(); ++i) {
    rejected += drafted[i] * (Real{1} - accept_probability(target[i], drafted[i]));
    residual_sum += residual_weight(target[i], drafted[i]);
  }
  double worst = 0;
  for (std::size_t i = 0; i < target.size(); ++i) {
    const Real kept = drafted[i] > 0 ? drafted[i] * accept_probability(target[i], drafted[i]) : Real{0};
    const Real replaced =
        residual_sum > 0 ? rejected * residual_weight(target[i], drafted[i]) / residual_sum : Real{0};
    worst = std::max(worst, std::abs(static_cast<double>(kept + replaced - target[i])));
  }
  return worst;
}

TEST(rejection_rule, gives_exactly_the_target_distribution_whatever_the_draft) {
  std::mt19937_64 engine(1);
  SCOPED_TRACE("seed 1");
  double worst = 0;
  double worst_float = 0;
  for (int trial = 0; trial < 100000; ++trial) {
    const std::size_t size = 2 + engine() % 63;
    std::vector<double> target = random_probs(engine, size);
    std::vector<double> drafted = random_probs(engine, size);
    if (trial % 10 == 0) drafted = target;
    if (trial % 10 == 1) { // disjoint
      for (std::size_t i = 0; i < size; ++i) target[i] = drafted[i] = 0;
      target[engine() % (size / 2)] = 1;
      drafted[size / 2 + engine() % (size - size / 2)] = 1;
    }
    worst = std::max(worst, deviation(target, drafted));
    worst_float = std::max(worst_float, deviation(std::vector<float>(target.begin(), target.end()),
                                                  std::vector<float>(drafted.begin(), drafted.end())));
  }
  EXPECT_LE(worst, 1e-12);
  EXPECT_LE(worst_float, 2e-6);
}

token_id nth_token(std::size_t index) { return token_id{static_cast<std::int32_t>(index)}; }

/// The processed scores of a random distribution.
std::vector<float> random_scores(std::mt19937_64& engine, std::size_t size) {
  const std::vector<double> probs = random_probs(engine, size);
  const double best = *std::max_element(probs.begin(), probs.end());
  std::vector<float> scores;
  for (const double prob : probs)
    scores.push_back(prob > 0 ? static_cast<float>(std::log(prob / best))
                              : -std::numeric_limits<float>::infinity());
  return scores;
}

/// A draft of one random token: with a truncated distribution, or without one and therefore certain.
draft random_draft(std::mt19937_64& engine, std::size_t size, bool certain) {
  draft out;
  token_id drafted = nth_token(engine() % size);
  if (!certain) {
    out.probs.push_back(truncated_distribution(random_scores(engine, size)));
    drafted = out.probs[0].tokens.back();
  }
  out.tree.add(drafted, token_tree::root);
  return out;
}

double total_prob(const draft_side& from) {
  double sum = 0;
  for (std::size_t entry = 0; entry < from.tokens().size(); ++entry) sum += from.prob(entry);
  return sum;
}

/// The probability that a token of `from` is rejected.
double rejection_prob(const remaining_target& target, const draft_side& from) {
  double sum = 0;
  for (std::size_t entry = 0; entry < from.tokens().size(); ++entry)
    sum +=
        from.prob(entry) * (1 - accept_probability(target.prob_of(from.tokens()[entry]), from.prob(entry)));
  return sum;
}

/// Verifies a token of `from` against `scores`: acceptance and replacement together must give the target's
/// distribution, both before and after the residual is written into the row.
void expect_the_target_distribution(const std::vector<float>& scores, const draft_side& from) {
  std::vector<float> row = scores;
  const remaining_target target(row);
  const double rejected = rejection_prob(target, from);
  ASSERT_NEAR(total_prob(from), 1.0, 1e-14);
  ASSERT_NEAR(target.mass_beyond(from, 1.0), rejected, 1e-14);
  remaining_target rest(row);
  if (!rest.keep_beyond(from, 1.0)) {
    rest.write_scores();
    ASSERT_EQ(row, scores);
    ASSERT_LT(rejected, 2e-12);
    return;
  }
  std::vector<double> target_probs, left;
  for (std::size_t i = 0; i < row.size(); ++i) {
    target_probs.push_back(target.prob_of(nth_token(i)));
    left.push_back(rest.prob_of(nth_token(i)));
  }
  rest.write_scores();
  const double written_total = sampling::total_weight(row);
  for (std::size_t i = 0; i < row.size(); ++i) {
    const double draft_prob = from.prob_of(nth_token(i));
    const double kept = draft_prob > 0 ? draft_prob * accept_probability(target_probs[i], draft_prob) : 0.0;
    ASSERT_NEAR(kept + rejected * left[i], target_probs[i], 1e-12) << "token " << i << " of " << row.size();
    ASSERT_NEAR(rejected * static_cast<double>(portable_exp(row[i])) / written_total, rejected * left[i],
                2e-7)
        << "token " << i << ": scores are floats";
  }
}

/// The same identity for what verification actually computes: processed scores, a truncated draft
/// distribution, and the residual written into the row.
TEST(rejection_rule, the_row_arithmetic_gives_the_target_distribution_too) {
  std::mt19937_64 engine(2);
  for (int trial = 0; trial < 20000; ++trial) {
    SCOPED_TRACE(::testing::Message() << "seed 2, trial " << trial);
    const std::size_t size = 2 + engine() % (trial % 4 == 0 ? 300 : 63);
    const std::vector<float> scores = random_scores(engine, size);
    const draft proposal = random_draft(engine, size, trial % 3 == 0);
    const draft unchanged = proposal;
    ASSERT_NO_FATAL_FAILURE(expect_the_target_distribution(scores, draft_side(proposal, 0)));
    ASSERT_EQ(proposal.tree.tokens()[0], unchanged.tree.tokens()[0]);
    if (!proposal.probs.empty()) {
      ASSERT_EQ(proposal.probs[0].probs, unchanged.probs[0].probs);
      ASSERT_EQ(proposal.probs[0].tokens, unchanged.probs[0].tokens);
    }
  }
}

TEST(rejection_rule, the_ends_of_the_range_are_certain) {
  EXPECT_EQ(accept_probability(0.0, 0.3), 0.0);
  EXPECT_EQ(accept_probability(0.3, 0.3), 1.0);
  EXPECT_EQ(accept_probability(1.0, 1.0), 1.0);
  EXPECT_EQ(accept_probability(0.5, 0.0), 1.0);
  EXPECT_EQ(accept_probability(0.1, 0.4), 0.25);
  EXPECT_EQ(residual_weight(0.1, 0.4), 0.0);
  EXPECT_EQ(residual_weight(0.75, 0.5), 0.25);
}

} // namespace
} // namespace paceline::speculation
