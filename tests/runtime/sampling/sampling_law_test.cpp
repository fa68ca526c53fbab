#include "runtime/sampling/pipeline.hpp"
#include "tests/support/reference_pipeline.hpp"
#include "tests/support/statistics.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace paceline::sampling {
namespace {

/// The request's samples from one row at a million positions, against the distribution computed by the slow
/// version.
test::goodness_of_fit fit_of(const std::vector<float>& logits, const sampling_params& params) {
  constexpr std::uint32_t num_samples = 1000000;
  const pipeline sampling(params, {});
  std::vector<std::uint64_t> counts(logits.size());
  std::vector<float> scores = logits;
  EXPECT_TRUE(sampling.process(scores, {}));
  for (std::uint32_t i = 0; i < num_samples; ++i)
    ++counts[static_cast<std::size_t>(sampling.sample(scores, token_position{i}).value)];
  return test::compare(counts, test::process(logits, params, {}, {}, 0).probs);
}

TEST(sampling_law, samples_follow_the_processed_distribution) {
  const std::vector<float> logits{1.5F, 1.0F, 0.3F, 0.0F, -0.4F, -1.0F, -2.5F, -4.0F};
  const sampling_params plain{.seed = 101};
  sampling_params cold{.temperature = 0.6F, .seed = 102};
  sampling_params cut{.seed = 103};
  cut.top_k = 6;
  cut.top_p = 0.9F;
  cut.min_p = 0.05F;
  sampling_params hot{.temperature = 2.0F, .seed = 1ULL << 40};
  hot.choice_index = 5;
  for (const sampling_params& params : {plain, cold, cut, hot}) {
    const auto fit = fit_of(logits, params);
    EXPECT_TRUE(fit.accepted()) << "seed " << params.seed << ": chi-square " << fit.chi_square << " of "
                                << fit.chi_square_limit << ", variation " << fit.total_variation << " of "
                                << fit.variation_limit;
  }
}

TEST(sampling_law, neighbouring_seeds_are_independent) {
  // Joint distribution of the samples of seeds s and s + 1 at one position: the product of two distributions.
  const std::vector<float> logits{0.5F, 0.0F, -0.5F, -1.0F};
  const auto probs = test::process(logits, {}, {}, {}, 0).probs;
  std::vector<std::uint64_t> counts(16);
  std::vector<float> scores = logits;
  ASSERT_TRUE(pipeline({}, {}).process(scores, {}));
  for (std::uint64_t seed = 0; seed < 400000; seed += 2) {
    const auto first = pipeline({.seed = seed}, {}).sample(scores, token_position{7}).value;
    const auto second = pipeline({.seed = seed + 1}, {}).sample(scores, token_position{7}).value;
    ++counts[static_cast<std::size_t>(4 * first + second)];
  }
  std::vector<double> joint;
  for (const double a : probs)
    for (const double b : probs) joint.push_back(a * b);
  const auto fit = test::compare(counts, joint);
  EXPECT_TRUE(fit.accepted()) << fit.chi_square << " of " << fit.chi_square_limit;
}

} // namespace
} // namespace paceline::sampling
