#include "runtime/base/philox.hpp"

#include "runtime/base/portable_math.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <set>

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

TEST(philox, uniforms_of_extreme_words_lie_strictly_between_0_and_1) {
  EXPECT_EQ(uniform_of(0), 0x1p-33);
  EXPECT_EQ(uniform_of(0xFFFFFFFFU), 1.0 - 0x1p-33);
  EXPECT_LT(uniform_of(0xFFFFFFFFU), 1.0);
  for (const std::uint32_t word : {0U, 1U, 0x7FFFFFFFU, 0x80000000U, 0xFFFFFF80U, 0xFFFFFFFFU}) {
    EXPECT_TRUE(std::isfinite(gumbel_of(word))) << word;
    EXPECT_LE(gumbel_of(word), largest_gumbel);
  }
}

TEST(philox, gumbel_variates_follow_the_library_logarithm_and_grow_with_the_word) {
  std::uint32_t seed = 20240611;
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 engine(seed);
  for (int i = 0; i < 200000; ++i) {
    const std::uint32_t word = engine();
    const double expected = -std::log(-std::log(uniform_of(word)));
    ASSERT_NEAR(gumbel_of(word), expected, 4e-15 * std::max(1.0, std::abs(expected))) << word;
    const std::uint32_t above = word < 0xFFFFFFFFU ? word + 1 : word;
    ASSERT_LE(gumbel_of(word), gumbel_of(above)) << word;
  }
}

TEST(philox, every_part_of_a_stream_changes_its_numbers) {
  const noise_stream base{.seed = 7, .position = token_position{11}, .choice_index = 2};
  std::set<std::uint32_t> words{base.word(0)};
  const auto differs = [&](noise_stream other, std::uint32_t index = 0) {
    return words.insert(other.word(index)).second;
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
  for (const auto purpose : {noise_purpose::draft, noise_purpose::accept, noise_purpose::residual,
                             noise_purpose::scheduler, noise_purpose::fault}) {
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
  for (int i = 0; i <= 700000; ++i) {
    const float x = static_cast<float>(i) * (-87.0F / 700000.0F);
    const double expected = std::exp(static_cast<double>(x));
    ASSERT_NEAR(portable_exp(x), expected, expected * 2 * 0x1p-23) << x;
  }
  EXPECT_EQ(portable_exp(0.0F), 1.0F);
  EXPECT_EQ(portable_exp(-88.0F), 0.0F);
  EXPECT_EQ(portable_exp(-std::numeric_limits<float>::infinity()), 0.0F);
}

} // namespace
} // namespace paceline
