#include "runtime/sampling/pipeline.hpp"

#include "runtime/base/check.hpp"
#include "runtime/base/portable_math.hpp"
#include "tests/support/reference_pipeline.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace paceline::sampling {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
const float not_a_number = std::numeric_limits<float>::quiet_NaN();

/// A row somewhere inside a request: prompt, committed output, draft path.
struct situation {
  std::vector<float> logits;
  sampling_params params;
  stop_params stop;
  std::vector<token_id> context; ///< prompt, output, draft path
  std::size_t prompt_length = 0;
  std::size_t path_length = 0;

  token_counts committed() const {
    token_counts counts;
    const std::span<const token_id> all(context);
    counts.add_prompt(all.first(prompt_length));
    for (const token_id token : all.subspan(prompt_length, context.size() - prompt_length - path_length))
      counts.add_output(token);
    return counts;
  }
  row_context row(const token_counts& counts) const {
    return {.committed = &counts,
            .draft_path = std::span(context).last(path_length),
            .position = token_position{static_cast<std::uint32_t>(context.size())},
            .output_index = static_cast<std::uint32_t>(context.size() - prompt_length)};
  }
};

template <class T, std::size_t N>
T pick(std::mt19937& engine, const T (&values)[N]) {
  return values[engine() % N];
}

situation random_situation(std::mt19937& engine, std::size_t max_vocab) {
  situation s;
  const std::size_t vocab = 1 + engine() % max_vocab;
  const auto token = [&] { return token_id{static_cast<std::int32_t>(engine() % vocab)}; };
  std::normal_distribution<float> normal(0, pick(engine, {0.5F, 2.0F, 6.0F}));
  const bool coarse = engine() % 3 == 0; // ties
  for (std::size_t i = 0; i < vocab; ++i) {
    const float logit = normal(engine);
    s.logits.push_back(coarse ? std::round(logit) : logit);
  }
  s.params.temperature = pick(engine, {0.0F, 0.3F, 0.7F, 1.0F, 1.0F, 2.0F});
  s.params.top_k = pick(engine, {0, -1, 0, 1, 5, 40, 1000000});
  s.params.top_p = pick(engine, {1.0F, 1.0F, 0.95F, 0.5F, 0.05F});
  s.params.min_p = pick(engine, {0.0F, 0.0F, 0.0F, 0.013F, 0.2F, 1.0F});
  s.params.repetition_penalty = pick(engine, {1.0F, 1.0F, 1.3F, 0.8F});
  s.params.presence_penalty = pick(engine, {0.0F, 0.0F, 0.7F, -1.5F});
  s.params.frequency_penalty = pick(engine, {0.0F, 0.0F, 0.4F, -0.6F});
  s.params.seed = (std::uint64_t{engine()} << 32) | engine();
  s.params.choice_index = engine() % 3;
  if (engine() % 3 == 0)
    for (std::size_t i = 0; i < vocab; i += 1 + engine() % 5)
      s.params.logit_bias.emplace_back(token_id{static_cast<std::int32_t>(i)},
                                       pick(engine, {3.0F, -4.0F, -100.0F}));
  s.stop.eos_ids = {token()};
  s.stop.stop_ids = {token()};
  s.stop.min_tokens = engine() % 6;
  s.stop.ignore_eos = engine() % 4 == 0;
  s.prompt_length = 1 + engine() % 6;
  s.path_length = engine() % 6;
  const std::size_t num_output = engine() % 6;
  for (std::size_t i = 0; i < s.prompt_length + num_output + s.path_length; ++i) s.context.push_back(token());
  return s;
}

TEST(pipeline, agrees_with_its_slow_twin_under_every_combination_of_options) {
  const std::uint32_t seed = 20250101;
  SCOPED_TRACE("seed 20250101");
  std::mt19937 engine(seed);
  std::size_t undecided = 0;
  constexpr int trials = 20000;
  for (int trial = 0; trial < trials; ++trial) {
    const situation s = random_situation(engine, trial % 20 == 0 ? 1000 : 40);
    SCOPED_TRACE("trial " + std::to_string(trial));
    const test::reference_row expected =
        test::process(s.logits, s.params, s.stop, s.context, s.prompt_length);
    if (expected.near_a_limit) {
      ++undecided;
      continue;
    }
    const pipeline sampling(s.params, s.stop);
    const token_counts counts = s.committed();
    std::vector<float> scores = s.logits;
    const bool usable = sampling.process(scores, s.row(counts));
    const auto expected_token = test::sample(expected, s.params, s.row(counts).position);
    ASSERT_EQ(usable, expected_token.has_value());
    if (!usable) continue;
    const double total = total_weight(scores);
    for (std::size_t i = 0; i < scores.size(); ++i) {
      ASSERT_EQ(scores[i] == -infinity, expected.probs[i] == 0.0) << "token " << i;
      ASSERT_NEAR(static_cast<double>(portable_exp(scores[i])) / total, expected.probs[i], 3e-6)
          << "token " << i;
    }
    ASSERT_EQ(sampling.sample(scores, s.row(counts).position), *expected_token);
  }
  EXPECT_LT(undecided, trials / 100);
}

TEST(pipeline, choosing_at_once_equals_processing_then_sampling) {
  std::mt19937 engine(77);
  SCOPED_TRACE("seed 77");
  for (int trial = 0; trial < 20000; ++trial) {
    situation s = random_situation(engine, trial % 20 == 0 ? 3000 : 60);
    for (float& logit : s.logits)
      if (engine() % 50 == 0) logit = pick(engine, {not_a_number, infinity, -infinity, 3e38F, -3e38F});
    const pipeline sampling(s.params, s.stop);
    const token_counts counts = s.committed();
    std::vector<float> scores = s.logits;
    const bool usable = sampling.process(scores, s.row(counts));
    std::vector<float> scratch = s.logits;
    const choice chosen = sampling.choose(scratch, s.row(counts));
    ASSERT_EQ(chosen.hopeless, !usable) << "trial " << trial;
    ASSERT_EQ(chosen.token, sampling.sample(scores, s.row(counts).position)) << "trial " << trial;
  }
}

TEST(pipeline, a_sample_does_not_depend_on_truncation_that_spares_it) {
  // Noise belongs to token ids, not to ranks: removing tokens that are not chosen changes nothing.
  std::mt19937 engine(3);
  std::normal_distribution<float> normal(0, 2);
  for (int trial = 0; trial < 500; ++trial) {
    std::vector<float> logits(200);
    for (float& logit : logits) logit = normal(engine);
    sampling_params plain{.seed = engine()};
    sampling_params truncated = plain;
    truncated.top_k = 20;
    const row_context row{.position = token_position{static_cast<std::uint32_t>(trial)}};
    std::vector<float> scores = logits;
    pipeline(truncated, {}).process(scores, row);
    std::vector<float> scratch = logits;
    const token_id chosen = pipeline(plain, {}).process_and_sample(scratch, row);
    if (scores[static_cast<std::size_t>(chosen.value)] == -infinity) continue;
    scratch = logits;
    EXPECT_EQ(pipeline(truncated, {}).process_and_sample(scratch, row), chosen);
  }
}

TEST(pipeline, ties_go_to_the_lowest_id) {
  std::vector<float> logits(130, 1.0F);
  logits[0] = 0.5F;
  const row_context row{};
  std::vector<float> scratch = logits;
  EXPECT_EQ(pipeline({.temperature = 0}, {}).process_and_sample(scratch, row), token_id{1});
  scratch = logits;
  sampling_params one_of_all{};
  one_of_all.top_k = 1;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    one_of_all.seed = seed;
    scratch = logits;
    EXPECT_EQ(pipeline(one_of_all, {}).process_and_sample(scratch, row), token_id{1});
  }
}

TEST(pipeline, at_temperature_zero_the_distribution_is_certain) {
  std::vector<float> logits{0.1F, 0.7F, 0.7F, -2.0F};
  ASSERT_TRUE(pipeline({.temperature = 0}, {}).process(logits, {}));
  EXPECT_EQ(logits, (std::vector<float>{-infinity, 0.0F, -infinity, -infinity}));
}

TEST(pipeline, a_row_without_a_finite_logit_is_reported_and_gives_the_lowest_id) {
  for (const float temperature : {0.0F, 1.0F})
    for (const float bad : {not_a_number, -infinity}) {
      const pipeline sampling({.temperature = temperature}, {});
      std::vector<float> logits(100, bad);
      const choice chosen = sampling.choose(logits, {});
      EXPECT_TRUE(chosen.hopeless);
      EXPECT_EQ(chosen.token, token_id{0});
      std::vector<float> again(100, bad);
      EXPECT_FALSE(sampling.process(again, {}));
      EXPECT_EQ(sampling.sample(again, {}), token_id{0});
    }
  // Also if the minimum length removes all candidates.
  std::vector<float> only_end{1.0F};
  EXPECT_TRUE(pipeline({}, {.min_tokens = 1, .eos_ids = {token_id{0}}}).choose(only_end, {}).hopeless);
}

TEST(pipeline, nan_and_infinities_among_sane_logits_have_defined_ranks) {
  std::vector<float> logits{0.0F, not_a_number, 5.0F, -infinity};
  EXPECT_EQ(pipeline({.temperature = 0}, {}).process_and_sample(logits, {}), token_id{2});
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    std::vector<float> row{0.0F, not_a_number, 0.0F, -infinity};
    const token_id chosen = pipeline({.seed = seed}, {}).process_and_sample(row, {});
    EXPECT_TRUE(chosen == token_id{0} || chosen == token_id{2});
    std::vector<float> above{0.0F, infinity, 3e38F, 1.0F};
    EXPECT_EQ(pipeline({.seed = seed}, {}).process_and_sample(above, {}), token_id{1});
  }
}

TEST(pipeline, biases_and_counts_outside_the_vocabulary_are_ignored) {
  sampling_params params{.temperature = 0, .repetition_penalty = 2.0F};
  params.logit_bias = {{token_id{-4}, 50.0F}, {token_id{2}, 9.0F}, {token_id{1000}, 50.0F}};
  token_counts counts;
  counts.add_output(token_id{2000});
  const std::vector<token_id> path{token_id{3000}, token_id{-1}};
  std::vector<float> logits{0.0F, 1.0F, 0.0F};
  EXPECT_EQ(pipeline(params, {.stop_ids = {token_id{99}}})
                .process_and_sample(logits, {.committed = &counts, .draft_path = path}),
            token_id{2});
}

TEST(pipeline, choices_and_positions_of_one_seed_draw_apart) {
  const std::vector<float> flat(1000, 0.0F);
  std::size_t equal = 0;
  for (std::uint32_t position = 0; position < 300; ++position) {
    const auto draw = [&](std::uint32_t choice_index, std::uint32_t at) {
      sampling_params params{.seed = 1};
      params.choice_index = choice_index;
      std::vector<float> row = flat;
      return pipeline(params, {}).process_and_sample(row, {.position = token_position{at}});
    };
    equal += draw(0, position) == draw(1, position);
    equal += draw(0, position) == draw(0, position + 1);
    ASSERT_EQ(draw(2, position), draw(2, position));
  }
  EXPECT_LT(equal, 8U);
}

TEST(pipeline, raw_log_probabilities_follow_the_definition) {
  std::mt19937 engine(12);
  std::normal_distribution<float> normal(0, 4);
  for (const std::size_t size : {1U, 7U, 100U, 5000U}) {
    std::vector<float> logits(size);
    for (float& logit : logits) logit = normal(engine);
    logits[size / 2] = logits[0]; // a tie
    long double sum = 0;
    for (const float logit : logits) sum += std::exp(static_cast<long double>(logit));
    const auto expected = [&](std::size_t i) {
      return static_cast<double>(static_cast<long double>(logits[i]) - std::log(sum));
    };
    const raw_logprobs result = log_softmax_of(logits, token_id{static_cast<std::int32_t>(size - 1)}, 5);
    EXPECT_NEAR(result.chosen, expected(size - 1), 2e-6);
    ASSERT_EQ(result.top.size(), std::min<std::size_t>(5, size));
    for (std::size_t i = 0; i < result.top.size(); ++i) {
      EXPECT_NEAR(result.top[i].second, expected(static_cast<std::size_t>(result.top[i].first.value)), 2e-6);
      if (i > 0) {
        EXPECT_TRUE(result.top[i - 1].second > result.top[i].second ||
                    (result.top[i - 1].second == result.top[i].second &&
                     result.top[i - 1].first < result.top[i].first));
      }
    }
    EXPECT_TRUE(log_softmax_of(logits, token_id{0}, 0).top.empty());
    EXPECT_THROW(log_softmax_of(logits, token_id{static_cast<std::int32_t>(size)}, 0), check_failure);
  }
}

} // namespace
} // namespace paceline::sampling
