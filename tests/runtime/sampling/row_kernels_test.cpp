#include "runtime/sampling/row_kernels.hpp"

#include "runtime/base/portable_math.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace paceline::sampling::row_kernels_test {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
const float not_a_number = std::numeric_limits<float>::quiet_NaN();

/// The definition of a Gumbel-max draw: every token competes.
token_id draw_from_all(std::span<const float> scores, const noise_stream& noise) {
  double best = -std::numeric_limits<double>::infinity();
  token_id winner{0};
  for (std::size_t i = 0; i < scores.size(); ++i) {
    const token_id token{static_cast<std::int32_t>(i)};
    const double value = static_cast<double>(scores[i]) + noise.gumbel(token);
    if (value > best) {
      best = value;
      winner = token;
    }
  }
  return winner;
}

TEST(row_kernels, a_draw_that_skips_hopeless_tokens_equals_one_in_which_all_compete) {
  const std::uint32_t seed = 4711;
  SCOPED_TRACE("seed 4711");
  std::mt19937 engine(seed);
  std::size_t chunks_won_from_behind = 0;
  for (int trial = 0; trial < 3000; ++trial) {
    const std::size_t size = trial % 7 == 0 ? 4000 + engine() % 3000 : 1 + engine() % 300;
    // From flat (every token can win) to peaked (one always does); some rows with removed tokens.
    const float spread = std::array{0.0F, 0.5F, 2.0F, 5.0F, 12.0F, 40.0F}[engine() % 6];
    std::normal_distribution<float> normal(0, 1);
    std::vector<float> scores(size);
    for (float& score : scores)
      score = engine() % 10 == 0 && trial % 3 == 0 ? -infinity : spread * normal(engine);
    const noise_stream noise{.seed = engine(),
                             .position = token_position{static_cast<std::uint32_t>(engine())}};
    const token_id expected = draw_from_all(scores, noise);
    ASSERT_EQ(gumbel_argmax(scores, noise), expected)
        << "trial " << trial << ", size " << size << ", spread " << spread;
    chunks_won_from_behind +=
        argmax(scores) / chunk_size != static_cast<std::size_t>(expected.value) / chunk_size;
    std::vector<candidate> few;
    for (std::size_t i = size; i-- > 0;) few.push_back({scores[i], token_id{static_cast<std::int32_t>(i)}});
    ASSERT_EQ(gumbel_argmax(few, noise), expected);
  }
  EXPECT_GT(chunks_won_from_behind, 500U) << "the skipping was hardly exercised";
}

TEST(row_kernels, a_draw_from_nothing_is_the_lowest_id) {
  EXPECT_EQ(gumbel_argmax(std::span<const float>{}, noise_stream{}), token_id{0});
  const std::vector<float> removed(200, -infinity);
  EXPECT_EQ(gumbel_argmax(removed, noise_stream{}), token_id{0});
  EXPECT_EQ(gumbel_argmax(std::span<const candidate>{}, noise_stream{}), token_id{0});
}

TEST(row_kernels, argmax_takes_the_lowest_of_equals_and_ignores_nan) {
  for (const std::size_t size : {1U, 2U, 63U, 64U, 65U, 200U, 1000U})
    for (std::size_t first = 0; first < size; first += 1 + size / 13) {
      std::vector<float> row(size, -3.0F);
      row[first] = 2.0F;
      row[size - 1] = std::max(row[size - 1], 2.0F);
      if (first > 0) row[first - 1] = not_a_number;
      EXPECT_EQ(argmax(row), first) << size;
    }
  EXPECT_EQ(argmax(std::vector<float>(100, not_a_number)), 0U);
  EXPECT_EQ(argmax({}), 0U);
}

TEST(row_kernels, chunk_maxima_see_every_value_and_no_nan) {
  for (const std::size_t size : {1U, 15U, 63U, 64U, 65U, 130U, 200U})
    for (std::size_t at = 0; at < size; ++at) {
      std::vector<float> row(size, -1.0F);
      row[at] = 3.0F;
      row[(at + 1) % size] = size > 1 ? not_a_number : 3.0F;
      const auto maxima = chunk_maxima(row);
      ASSERT_EQ(maxima.size(), (size + 63) / 64);
      for (std::size_t chunk = 0; chunk < maxima.size(); ++chunk)
        if (chunk == at / 64)
          EXPECT_EQ(maxima[chunk], 3.0F);
        else
          EXPECT_LE(maxima[chunk], -1.0F);
    }
  EXPECT_EQ(chunk_maxima(std::vector<float>(70, not_a_number))[1], -infinity);
  EXPECT_TRUE(chunk_maxima({}).empty());
}

TEST(row_kernels, a_scale_orders_what_has_no_order) {
  const row_scale scale{.shift = 2.0F, .divisor = 0.5F};
  EXPECT_EQ(scale(3.0F), 2.0F);
  EXPECT_EQ(scale(not_a_number), -infinity);
  EXPECT_EQ(scale(-infinity), -infinity);
  const row_scale top{.shift = std::numeric_limits<float>::max()};
  EXPECT_EQ(top(infinity), 0.0F);
  EXPECT_EQ(top(-std::numeric_limits<float>::max()), -infinity);
  for (const std::size_t size : {1U, 16U, 37U, 200U}) {
    std::vector<float> row(size, 3.0F);
    row[size / 2] = not_a_number;
    apply_scale(scale, row);
    for (std::size_t i = 0; i < size; ++i) EXPECT_EQ(row[i], i == size / 2 ? -infinity : 2.0F);
  }
}

TEST(row_kernels, sums_are_accurate_and_depend_on_values_and_length_alone) {
  std::mt19937 engine(5);
  std::uniform_real_distribution<float> uniform(-30, 0);
  std::vector<float> storage(5001);
  for (float& value : storage) value = uniform(engine);
  for (const std::size_t size : {1U, 15U, 16U, 17U, 1000U, 5000U}) {
    double expected = 0;
    for (std::size_t i = 0; i < size; ++i) expected += std::exp(static_cast<double>(storage[i]));
    const double sum = sum_of_exp(std::span(storage).first(size), {});
    EXPECT_NEAR(sum, expected, 1e-6 * expected);
    // Another alignment of the same values.
    std::vector<float> moved(size + 1);
    std::copy_n(storage.begin(), size, moved.begin() + 1);
    EXPECT_EQ(sum_of_exp(std::span(moved).subspan(1), {}), sum);
  }
}

TEST(row_kernels, vector_loops_and_scalar_code_agree_to_the_bit) {
  // The exponential in the vector loop against a call for each element.
  std::mt19937 engine(6);
  std::uniform_real_distribution<float> uniform(-90, 0);
  for (int trial = 0; trial < 2000; ++trial) {
    std::vector<float> row(16, -infinity);
    const float value = uniform(engine);
    row[engine() % 16] = value;
    EXPECT_EQ(sum_of_exp(row, {}), static_cast<double>(portable_exp(value)));
  }
}

} // namespace
} // namespace paceline::sampling::row_kernels_test
