#include "runtime/grammar/number_ranges.hpp"

#include <boost/json/value.hpp>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <regex>
#include <string>

namespace paceline::grammar {
namespace {

/// Converts the EBNF of ranges to a regular expression: removes quotes and spaces, and escapes the point.
std::regex as_regex(const std::string& ebnf) {
  std::string out;
  for (const char c : ebnf) {
    if (c == '"' || c == ' ') continue;
    if (c == '.') out += '\\';
    out += c;
  }
  return std::regex(out);
}

TEST(number_ranges, integers_are_exactly_those_between_the_bounds) {
  for (std::int64_t min = -120; min <= 120; min += 7)
    for (std::int64_t max = min; max <= 130; max += 9) {
      const auto both = as_regex(integer_range(min, max));
      const auto above = as_regex(integer_range(min, std::nullopt));
      const auto below = as_regex(integer_range(std::nullopt, max));
      for (std::int64_t i = -1200; i <= 1200; i += (i > -150 && i < 150) ? 1 : 37) {
        const auto text = std::to_string(i);
        ASSERT_EQ(std::regex_match(text, both), min <= i && i <= max) << text << " in " << min << ", " << max;
        ASSERT_EQ(std::regex_match(text, above), min <= i) << text << " from " << min;
        ASSERT_EQ(std::regex_match(text, below), i <= max) << text << " to " << max;
      }
    }
}

TEST(number_ranges, numbers_with_fractions_obey_the_bounds) {
  for (const double min : {-2.5, -1.0, 0.0, 0.25, 3.0})
    for (const double max : {-1.25, 0.0, 0.5, 3.0, 11.75})
      for (const bool is_exclusive : {false, true}) {
        const auto ebnf = number_range(to_bound(min, is_exclusive), to_bound(max, is_exclusive));
        if (ebnf.empty()) {
          EXPECT_TRUE(min > max || (min == max && is_exclusive)) << min << " " << max;
          continue;
        }
        const auto range = as_regex(ebnf);
        for (int i = -1400; i <= 1400; i += 5) {
          // Two decimals: all bounds have at most two.
          const int whole = std::abs(i) / 100;
          const int rest = std::abs(i) % 100;
          const auto text = std::string(i < 0 ? "-" : "") + std::to_string(whole) + "." +
                            (rest < 10 ? "0" : "") + std::to_string(rest);
          const double value = i / 100.0;
          const bool is_inside = is_exclusive ? min < value && value < max : min <= value && value <= max;
          ASSERT_EQ(std::regex_match(text, range), is_inside) << text << " in " << min << ", " << max;
        }
      }
}

TEST(number_ranges, a_bound_with_too_many_digits_is_none) {
  EXPECT_FALSE(to_bound(1e300, false));
  EXPECT_FALSE(to_bound(0.12345678, false));
  EXPECT_FALSE(to_bound(18446744073709551616.0, false));
  EXPECT_EQ(static_cast<int>(to_bound(-0.125, false)->scaled), -125);
}

TEST(number_ranges, integers_of_64_bits_are_exact) {
  constexpr auto least = std::numeric_limits<std::int64_t>::min();
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  constexpr auto most_unsigned = std::numeric_limits<std::uint64_t>::max();
  const auto all = as_regex(integer_range(to_bound(least, false), to_bound(most, false)));
  for (const char* text : {"0", "-1", "9223372036854775807", "-9223372036854775808", "9007199254740993"})
    EXPECT_TRUE(std::regex_match(text, all)) << text;
  for (const char* text : {"9223372036854775808", "-9223372036854775809", "10000000000000000000", "-0"})
    EXPECT_FALSE(std::regex_match(text, all)) << text;
  const auto inner = as_regex(integer_range(to_bound(least, true), to_bound(most, true)));
  for (const char* text : {"9223372036854775806", "-9223372036854775807"})
    EXPECT_TRUE(std::regex_match(text, inner)) << text;
  for (const char* text : {"9223372036854775807", "-9223372036854775808"})
    EXPECT_FALSE(std::regex_match(text, inner)) << text;
  const auto large = as_regex(integer_range(to_bound(most, true), to_bound(most_unsigned, false)));
  for (const char* text : {"9223372036854775808", "18446744073709551615"})
    EXPECT_TRUE(std::regex_match(text, large)) << text;
  for (const char* text : {"9223372036854775807", "18446744073709551616"})
    EXPECT_FALSE(std::regex_match(text, large)) << text;
}

TEST(number_ranges, long_bounds_are_compared_exactly) {
  const auto a = *to_bound(std::int64_t{9007199254740992}, false);
  const auto b = *to_bound(std::int64_t{9007199254740993}, false);
  EXPECT_TRUE(is_less(a, b));
  EXPECT_FALSE(is_less(b, a));
  EXPECT_TRUE(is_empty_range(b, a, false));
  EXPECT_TRUE(is_less(*to_bound(0.5, false), a));
}

TEST(number_ranges, beside_a_long_bound_only_integers_have_many_digits) {
  const auto range = as_regex(
      number_range(to_bound(std::int64_t{-3}, true), to_bound(std::int64_t{9007199254740991}, true)));
  for (const char* text : {"0", "1.0", "-2.75", "9007199254740990", "123456789.5", "1000000000000000"})
    EXPECT_TRUE(std::regex_match(text, range)) << text;
  for (const char* text :
       {"-3", "-3.0", "-3.5", "9007199254740991", "9007199254740990.9", "9007199254740990.5"})
    EXPECT_FALSE(std::regex_match(text, range)) << text;
  const auto below = as_regex(number_range(std::nullopt, to_bound(std::int64_t{-9007199254740992}, false)));
  EXPECT_TRUE(std::regex_match("-9007199254740992", below));
  for (const char* text : {"-9007199254740991", "-9007199254740992.5", "0", "0.5"})
    EXPECT_FALSE(std::regex_match(text, below)) << text;
}

} // namespace
} // namespace paceline::grammar
