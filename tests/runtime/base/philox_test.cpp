#include "runtime/base/philox.hpp"

#include "runtime/base/portable_math.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <set>
#include <vector>

namespace paceline {
namespace {

// Known answers of the Random123 distribution (kat_vectors, philox4x32 10).
TEST(philox, gives_the_published_known_answers) {
  constexpr std::uint32_t ones = 0xFFFFFFFFU;
  EXPECT_EQ(philox4x32_10({0, 0, 0, 0}, {0, 0}),
            (philox_counter{0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8}));
  EXPECT_EQ(philox4x32_10({ones, ones, ones, ones}, {ones, ones}),
            (philox_counter{0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD}));
  EXPECT_EQ(philox4x32_10({0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344}, {0xA4093822, 0x299F31D0}),
            (philox_counter{0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1}));
}

TEST(philox, extreme_words_give_uniforms_inside_the_open_interval_and_finite_noise) {
  EXPECT_EQ(uniform_of(0), 0x1p-33);
  EXPECT_EQ(uniform_of(0xFFFFFFFFU), 1.0 - 0x1p-33);
  EXPECT_LT(uniform_of(0xFFFFFFFFU), 1.0);
  constexpr std::array extremes{0U, 1U, 0x7FFFFFFFU, 0x80000000U, 0xFFFFFF80U, 0xFFFFFFFFU};
  for (const std::uint32_t first : extremes) {
    EXPECT_GT(exponential_of(first), 0.0);
    for (const std::uint32_t own : extremes)
      for (const std::uint32_t chosen : {0U, 5U}) {
        const noise_cohort cohort({first, chosen, 0, 0});
        EXPECT_TRUE(std::isfinite(cohort.gumbel(5, own))) << first << " " << own;
        EXPECT_LE(cohort.gumbel(5, own), cohort.largest_gumbel());
        EXPECT_EQ(cohort.gumbel(5, own) == cohort.largest_gumbel(), chosen == 5);
      }
  }
}

TEST(philox, exponentials_follow_the_library_logarithm_and_fall_as_the_word_grows) {
  const std::uint32_t seed = 20240611;
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 engine(seed);
  for (int i = 0; i < 200000; ++i) {
    const std::uint32_t word = engine();
    const double expected = -std::log(uniform_of(word));
    ASSERT_NEAR(exponential_of(word), expected, 4e-16 * std::max(1.0, expected)) << word;
    const std::uint32_t above = word < 0xFFFFFFFFU ? word + 1 : word;
    ASSERT_GE(exponential_of(word), exponential_of(above)) << word;
  }
}

TEST(philox, the_bound_of_a_cohort_holds_for_every_word_and_is_close) {
  const auto check = [](std::uint32_t word) {
    const double largest = noise_cohort({word, 0, 0, 0}).largest_gumbel();
    ASSERT_GE(largest_gumbel_bound(word), largest) << word;
    if (word >= 0x80000000U && word < 0xFFFFFFF0U) {
      ASSERT_LT(largest_gumbel_bound(word), largest + 0.14) << word;
    }
  };
  for (std::uint32_t shift = 0; shift < 32; ++shift)
    for (std::uint32_t step = 0; step < 16; ++step) {
      const std::uint32_t distance = (std::uint32_t{1} << shift) + ((step << shift) >> 4);
      for (const std::uint32_t word : {~(distance - 1), ~distance, ~(distance + 1)}) check(word);
    }
  std::mt19937 engine(17);
  for (int i = 0; i < 200000; ++i) check(engine());
}

TEST(philox, gumbel_noise_of_tokens_is_standard_and_independent) {
  // Kolmogorov-Smirnov test of the noise of several tokens over positions, and of the larger noise of pairs
  // inside cohorts and across them. For independent variates, the larger of two is a Gumbel variate shifted
  // by log 2.
  constexpr std::uint32_t count = 40000;
  const auto distance = [&](const std::function<double(token_position)>& variate, double shift) {
    std::vector<double> levels;
    for (std::uint32_t i = 0; i < count; ++i)
      levels.push_back(std::exp(-std::exp(-(variate(token_position{i}) - shift))));
    std::sort(levels.begin(), levels.end());
    double worst = 0;
    for (std::uint32_t i = 0; i < count; ++i)
      worst = std::max(
          {worst, std::abs(levels[i] - i / double(count)), std::abs(levels[i] - (i + 1) / double(count))});
    return worst * std::sqrt(double(count));
  };
  constexpr double limit = 2.7; // exceeded with probability 2 exp(-2 * 2.7^2) = 1e-6
  const auto noise_at = [](token_position position) {
    return noise_stream{.seed = 33, .position = position};
  };
  for (const std::int32_t id : {0, 3, 4, 63, 64, 151935}) {
    EXPECT_LT(distance([&](token_position p) { return noise_at(p).gumbel(token_id{id}); }, 0), limit) << id;
    for (const std::int32_t other : {1, 62, 65, 1000})
      EXPECT_LT(distance(
                    [&](token_position p) {
                      return std::max(noise_at(p).gumbel(token_id{id}), noise_at(p).gumbel(token_id{other}));
                    },
                    std::log(2.0)),
                limit)
          << id << " and " << other;
  }
  EXPECT_LT(distance(
                [&](token_position p) {
                  double best = -100;
                  for (std::int32_t id = 0; id < 64; ++id)
                    best = std::max(best, noise_at(p).gumbel(token_id{id}));
                  return best;
                },
                std::log(64.0)),
            limit)
      << "a whole cohort";
}

TEST(philox, every_part_of_a_stream_changes_its_numbers) {
  const noise_stream base{.seed = 7, .position = token_position{11}, .choice_index = 2};
  std::set<std::uint32_t> words{base.words(0)[0]};
  const auto differs = [&](noise_stream other, std::uint32_t index = 0) {
    return words.insert(other.words(index)[0]).second;
  };
  auto changed = base;
  changed.seed = 8;
  EXPECT_TRUE(differs(changed));
  changed.seed = 7 + (std::uint64_t{1} << 32);
  EXPECT_TRUE(differs(changed));
  changed = base;
  changed.position = token_position{12};
  EXPECT_TRUE(differs(changed));
  changed = base;
  changed.choice_index = 3;
  EXPECT_TRUE(differs(changed));
  changed = base;
  changed.place = 1;
  EXPECT_TRUE(differs(changed));
  changed.place = 1U << 23;
  EXPECT_TRUE(differs(changed));
  for (const auto purpose : {noise_purpose::draft, noise_purpose::accept, noise_purpose::residual,
                             noise_purpose::scheduler, noise_purpose::fault, noise_purpose::proposal}) {
    changed = base;
    changed.purpose = purpose;
    EXPECT_TRUE(differs(changed));
  }
  for (const std::uint32_t index : {1U, 2U, 3U, 4U, 400U}) EXPECT_TRUE(differs(base, index));
}

TEST(portable_math, logarithm_is_within_two_units_of_the_last_place) {
  const std::uint32_t seed = 99;
  SCOPED_TRACE("seed 99");
  std::mt19937_64 engine(seed);
  std::uniform_real_distribution<double> exponent(-60, 60);
  for (int i = 0; i < 200000; ++i) {
    const double x =
        i % 2 == 0 ? std::exp(exponent(engine)) : 1.0 + std::ldexp(exponent(engine), -(i % 50) - 7);
    const long double expected = std::log(static_cast<long double>(x));
    const double unit = std::nextafter(std::abs(static_cast<double>(expected)), 1e300) -
                        std::abs(static_cast<double>(expected));
    ASSERT_LE(std::abs(static_cast<long double>(portable_log(x)) - expected), 2.0L * unit) << x;
  }
  EXPECT_EQ(portable_log(1.0), 0.0);
}

TEST(portable_math, exponential_is_within_two_units_of_the_last_place_and_ends_in_zero) {
  for (int i = 0; i <= 690000; ++i) {
    const float x = static_cast<float>(i) * (-86.9F / 690000.0F);
    const double expected = std::exp(static_cast<double>(x));
    ASSERT_NEAR(portable_exp(x), expected, expected * 2 * 0x1p-23) << x;
  }
  EXPECT_EQ(portable_exp(0.0F), 1.0F);
  EXPECT_EQ(portable_exp(-87.0F), 0.0F);
  EXPECT_EQ(portable_exp(-std::numeric_limits<float>::infinity()), 0.0F);
}

} // namespace
} // namespace paceline
