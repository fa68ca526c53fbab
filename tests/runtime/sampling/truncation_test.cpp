#include "runtime/sampling/truncation.hpp"

#include "runtime/base/portable_math.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

namespace paceline::sampling {
namespace {

constexpr float minus_infinity = -std::numeric_limits<float>::infinity();

std::vector<std::int32_t> ids_of(const std::vector<candidate>& tokens) {
  std::vector<std::int32_t> ids;
  for (const candidate& entry : tokens) ids.push_back(entry.token.value);
  return ids;
}

void truncate(const std::vector<float>& scores, const truncation& rule, std::vector<candidate>& out) {
  truncate(scores, chunk_maxima(scores), {}, rule, out);
}

TEST(truncation, the_top_tokens_are_those_of_a_full_sort) {
  std::mt19937 engine(31);
  SCOPED_TRACE("seed 31");
  std::vector<candidate> found;
  for (int trial = 0; trial < 2000; ++trial) {
    const std::size_t size = 1 + engine() % (trial % 10 == 0 ? 5000 : 300);
    const std::uint32_t levels = 1 + engine() % 50; // few levels: many ties
    std::vector<float> scores(size);
    std::vector<candidate> sorted;
    for (std::size_t i = 0; i < size; ++i) {
      scores[i] = engine() % 20 == 0 ? minus_infinity : -0.25F * static_cast<float>(engine() % levels);
      if (scores[i] > minus_infinity) sorted.push_back({scores[i], token_id{static_cast<std::int32_t>(i)}});
    }
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const candidate& a, const candidate& b) { return a.score > b.score; });
    const std::size_t count = engine() % (size + 3);
    sorted.resize(std::min(count, sorted.size()));
    select_top(scores, count, found);
    ASSERT_EQ(ids_of(found), ids_of(sorted)) << "trial " << trial << ", size " << size << ", count " << count;
  }
}

TEST(truncation, top_p_keeps_the_token_that_reaches_it) {
  // Probabilities 1/2, 1/4, 1/8, 1/8.
  const std::vector<float> scores{0.0F, -0.6931472F, -1.3862944F, -1.3862944F};
  std::vector<candidate> kept;
  truncate(scores, {.top_p = 0.4F}, kept);
  EXPECT_EQ(ids_of(kept), (std::vector{0}));
  truncate(scores, {.top_p = 0.51F}, kept);
  EXPECT_EQ(ids_of(kept), (std::vector{0, 1}));
  truncate(scores, {.top_p = 0.8F}, kept);
  std::sort(kept.begin(), kept.end(), likelier);
  EXPECT_EQ(ids_of(kept), (std::vector{0, 1, 2})) << "of two equals the lower id survives";
  truncate(scores, {.top_p = 1e-30F}, kept);
  EXPECT_EQ(ids_of(kept), (std::vector{0})) << "at least one";
}

/// Wide rows of every kind against a full sort: peaks over a bell, flat rows, and rows whose sample of the
/// tail is misleading (of 64 chunks the first is the lightest, or the heaviest).
TEST(truncation, top_p_keeps_the_shortest_leading_run_of_wide_rows) {
  std::mt19937 engine(37);
  std::normal_distribution<float> bell(0.0F, 2.5F);
  for (int trial = 0; trial < 60; ++trial) {
    SCOPED_TRACE("trial " + std::to_string(trial));
    std::vector<float> logits(5000 + engine() % 20000);
    for (std::size_t i = 0; i < logits.size(); ++i) {
      const bool sampled = i / chunk_size % 64 == 0;
      logits[i] = trial % 4 == 1 ? 0.01F * bell(engine) : bell(engine);
      if (trial % 4 == 2 && sampled) logits[i] -= 12.0F;
      if (trial % 4 == 3 && sampled) logits[i] += 4.0F;
    }
    if (trial % 3 == 0)
      for (int rank = 0; rank < 20; ++rank)
        logits[engine() % logits.size()] = 14.0F - 0.5F * static_cast<float>(rank);
    const float largest = *std::max_element(logits.begin(), logits.end());
    std::vector<candidate> sorted;
    for (std::size_t i = 0; i < logits.size(); ++i) {
      logits[i] -= largest;
      sorted.push_back({logits[i], token_id{static_cast<std::int32_t>(i)}});
    }
    std::sort(sorted.begin(), sorted.end(), likelier);
    double total = 0;
    for (const candidate& token : sorted) total += std::exp(static_cast<double>(token.score));
    for (const float top_p : {0.3F, 0.9F, 0.95F, 0.999F}) {
      double sum = 0;
      std::size_t count = 0;
      while (count < sorted.size() && sum < static_cast<double>(top_p) * total)
        sum += std::exp(static_cast<double>(sorted[count++].score));
      std::vector<candidate> kept;
      truncate(logits, {.top_p = top_p}, kept);
      std::sort(kept.begin(), kept.end(), likelier);
      // Sums of single-precision weights may end one or two tokens in ten thousand earlier or later.
      ASSERT_NEAR(static_cast<double>(kept.size()), static_cast<double>(count),
                  1 + 2e-4 * static_cast<double>(count))
          << top_p;
      ASSERT_TRUE(std::equal(
          kept.begin(), kept.begin() + static_cast<std::ptrdiff_t>(std::min(count, kept.size())),
          sorted.begin(), [](const candidate& a, const candidate& b) { return a.token == b.token; }));
    }
  }
}

/// The devices' rule, implemented again: all tokens sorted, sums from the front.
std::vector<candidate> kept_of_few(const std::vector<float>& scores, std::size_t top_k, float top_p) {
  std::vector<candidate> sorted;
  for (std::size_t i = 0; i < scores.size(); ++i)
    if (scores[i] > minus_infinity) sorted.push_back({scores[i], token_id{static_cast<std::int32_t>(i)}});
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const candidate& a, const candidate& b) { return a.score > b.score; });
  if (sorted.size() > top_k) sorted.resize(top_k);
  std::vector<double> sums{0.0};
  for (const candidate& token : sorted) sums.push_back(sums.back() + double{portable_exp(token.score)});
  const double needed = double{top_p} * sums.back();
  const auto reached = std::find_if(sums.begin(), sums.end(), [&](double sum) { return sum >= needed; });
  sorted.resize(static_cast<std::size_t>(reached - sums.begin()));
  return sorted;
}

TEST(truncation, top_p_behind_a_small_top_k_is_exact_to_the_token) {
  std::mt19937 engine(41);
  SCOPED_TRACE("seed 41");
  std::vector<candidate> kept;
  for (int trial = 0; trial < 4000; ++trial) {
    const std::uint32_t levels = 1 + engine() % 400;
    std::vector<float> scores(1 + engine() % 600);
    for (float& score : scores)
      score = engine() % 20 == 0 ? minus_infinity : -0.125F * static_cast<float>(engine() % levels);
    scores[engine() % scores.size()] = 0;
    const std::size_t top_k = 1 + engine() % 128;
    constexpr float mostly[] = {0.05F, 0.5F, 0.9F, 0.99F, 0.9999999F, 1e-30F};
    const float top_p = mostly[engine() % 6];
    truncate(scores, {.top_k = top_k, .top_p = top_p}, kept);
    std::sort(kept.begin(), kept.end(), likelier);
    ASSERT_EQ(ids_of(kept), ids_of(kept_of_few(scores, top_k, top_p)))
        << "trial " << trial << ", top-k " << top_k << ", top-p " << top_p << " of " << scores.size();
  }
}

TEST(truncation, top_p_behind_a_small_top_k_sums_from_the_likeliest_down) {
  // Sixty weights, each lost when added to the first two, but not their sum: half of the total is one token
  // in this order, and slightly more in any order that first adds some of them together.
  std::vector<float> scores(62, -36.7F);
  scores[7] = scores[30] = 0;
  std::vector<candidate> kept;
  truncate(scores, {.top_k = 62, .top_p = 0.5F}, kept);
  EXPECT_EQ(ids_of(kept), (std::vector{7}));
}

TEST(truncation, min_p_of_one_keeps_every_token_as_likely_as_the_best) {
  const std::vector<float> scores{-1e-3F, 0.0F, -5.0F, 0.0F};
  std::vector<candidate> kept;
  truncate(scores, {.min_p = 1.0F}, kept);
  EXPECT_EQ(ids_of(kept), (std::vector{1, 3}));
}

TEST(truncation, a_rule_that_removes_nothing_is_not_active) {
  EXPECT_FALSE((truncation{}.active(10)));
  EXPECT_FALSE((truncation{.top_k = 10}.active(10)));
  EXPECT_TRUE((truncation{.top_k = 9}.active(10)));
  EXPECT_TRUE((truncation{.top_p = 0.99F}.active(10)));
  EXPECT_TRUE((truncation{.min_p = 0.01F}.active(10)));
}

} // namespace
} // namespace paceline::sampling
