#include "config/scalar.hpp"

#include <gtest/gtest.h>

namespace paceline::config {
namespace {

using std::chrono::milliseconds;

option of(value_type type, std::uint64_t lowest = 0, std::uint64_t highest = ~0ULL) {
  option o;
  o.type = type;
  o.lowest = lowest;
  o.highest = highest;
  return o;
}

TEST(scalar_test, booleans_are_true_and_false_only) {
  const auto o = of(value_type::boolean);
  EXPECT_EQ(*parse_scalar(o, "true"), value(true));
  EXPECT_EQ(*parse_scalar(o, "false"), value(false));
  for (const auto* text : {"yes", "no", "on", "off", "y", "True", "TRUE", "1", "0", ""})
    EXPECT_FALSE(parse_scalar(o, text)) << text;
}

TEST(scalar_test, integers_are_decimal) {
  const auto o = of(value_type::integer);
  EXPECT_EQ(*parse_scalar(o, "0"), value(std::uint64_t{0}));
  EXPECT_EQ(*parse_scalar(o, "18446744073709551615"), value(~std::uint64_t{0}));
  for (const auto* text :
       {"010", "0x10", "1_000", "+1", "-1", "1.0", "1e3", " 1", "1 ", "", "18446744073709551616", "ten"})
    EXPECT_FALSE(parse_scalar(o, text)) << text;
}

TEST(scalar_test, both_limits_are_allowed_and_nothing_beyond) {
  const auto o = of(value_type::integer, 1, 256);
  EXPECT_TRUE(parse_scalar(o, "1"));
  EXPECT_TRUE(parse_scalar(o, "256"));
  EXPECT_FALSE(parse_scalar(o, "0"));
  const auto too_large = parse_scalar(o, "257");
  ASSERT_FALSE(too_large);
  EXPECT_EQ(too_large.error().message(), "'257' is not an integer from 1 to 256");
}

TEST(scalar_test, durations_need_a_unit) {
  const auto o = of(value_type::duration);
  EXPECT_EQ(*parse_scalar(o, "250ms"), value(milliseconds(250)));
  EXPECT_EQ(*parse_scalar(o, "30s"), value(milliseconds(30'000)));
  EXPECT_EQ(*parse_scalar(o, "5m"), value(milliseconds(300'000)));
  EXPECT_EQ(*parse_scalar(o, "2h"), value(milliseconds(7'200'000)));
  EXPECT_EQ(*parse_scalar(o, "0"), value(milliseconds(0)));
  for (const auto* text :
       {"30", "30 s", "1.5s", "-1s", "s", "30sec", "1m30s", "9999999999999999999h", "18446744073709551615ms"})
    EXPECT_FALSE(parse_scalar(o, text)) << text;
}

TEST(scalar_test, sizes_need_a_binary_unit) {
  const auto o = of(value_type::size);
  EXPECT_EQ(*parse_scalar(o, "512MiB"), value(std::uint64_t{512} << 20));
  EXPECT_EQ(*parse_scalar(o, "100B"), value(std::uint64_t{100}));
  for (const auto* text : {"512", "512MB", "512M", "1.5GiB", "KiB", "99999999999TiB", "1gib"})
    EXPECT_FALSE(parse_scalar(o, text)) << text;
}

TEST(scalar_test, numbers_are_finite_decimals) {
  const auto o = of(value_type::number, 0, 1000);
  EXPECT_EQ(*parse_scalar(o, "8"), value(8.0));
  EXPECT_EQ(*parse_scalar(o, "0.5"), value(0.5));
  EXPECT_EQ(*parse_scalar(o, "1e2"), value(100.0));
  for (const auto* text : {"-0.1", "1000.5", "1e400", "nan", "inf", "0x1p3", ".5", "1,5", ""})
    EXPECT_FALSE(parse_scalar(o, text)) << text;
}

TEST(scalar_test, a_wrong_word_is_answered_with_the_right_ones) {
  auto o = of(value_type::choice);
  o.choices = {"off", "groups", "auto"};
  EXPECT_TRUE(parse_scalar(o, "groups"));
  const auto wrong = parse_scalar(o, "on");
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().message(), "'on' is not one of off, groups, auto");
}

TEST(scalar_test, a_value_spelt_is_read_back_the_same) {
  for (const std::uint64_t n : {0ULL, 1ULL, 1023ULL, 1024ULL, 1536ULL, 3ULL << 20, 5ULL << 40}) {
    const auto o = of(value_type::size);
    EXPECT_EQ(*parse_scalar(o, spell(o, value(n))), value(n)) << spell(o, value(n));
  }
  for (const auto ms : {0, 1, 999, 1000, 1500, 60'000, 90'000, 7'200'000}) {
    const auto o = of(value_type::duration);
    EXPECT_EQ(*parse_scalar(o, spell(o, value(milliseconds(ms)))), value(milliseconds(ms)));
  }
  const auto o = of(value_type::number, 0, 1000);
  for (const auto x : {0.0, 0.1, 8.0, 123.456}) EXPECT_EQ(*parse_scalar(o, spell(o, value(x))), value(x));
}

} // namespace
} // namespace paceline::config
