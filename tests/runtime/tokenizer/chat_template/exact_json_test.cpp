#include "runtime/tokenizer/chat_template/exact_json.hpp"

#include <boost/json/parse.hpp>
#include <gtest/gtest.h>

#include <bit>
#include <charconv>
#include <cmath>
#include <random>
#include <string>

namespace paceline::tokenizer {
namespace {

double number(const std::string& text) {
  const auto parsed = parse_exact_json(text);
  EXPECT_TRUE(parsed) << text;
  return parsed && parsed->is_double() ? parsed->get_double() : std::nan("");
}

TEST(exact_json, doubles_read_back_to_the_bit) {
  constexpr unsigned seed = 20240706;
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int i = 0; i < 20000; ++i) {
    const auto wanted = std::bit_cast<double>(random());
    if (!std::isfinite(wanted)) continue;
    char text[64];
    auto end = std::to_chars(text, text + sizeof text, wanted, std::chars_format::scientific).ptr;
    ASSERT_EQ(std::bit_cast<std::uint64_t>(number({text, end})), std::bit_cast<std::uint64_t>(wanted))
        << std::string(text, end);
  }
  EXPECT_EQ(number("0.11902055707377501"), 0.11902055707377501);
  EXPECT_EQ(number("9241976.194277907"), 9241976.194277907);
}

TEST(exact_json, numbers_out_of_range_are_what_python_makes_of_them) {
  EXPECT_EQ(number("1e400"), HUGE_VAL);
  EXPECT_EQ(number("-1e400"), -HUGE_VAL);
  EXPECT_EQ(number("1e-400"), 0.0);
  EXPECT_EQ(number("0." + std::string(400, '0') + "1"), 0.0);
  EXPECT_EQ(number("1" + std::string(400, '0') + ".0e-10"), HUGE_VAL);
  const auto large = parse_exact_json("[18446744073709551616]");
  ASSERT_FALSE(large);
  EXPECT_NE(large.error().message().find("18446744073709551616 is beyond 64 bits"), std::string::npos);
  EXPECT_EQ(parse_exact_json("18446744073709551615")->get_uint64(), 18446744073709551615U);
}

TEST(exact_json, everything_else_is_as_boost_reads_it) {
  const std::string text = R"({"a":[1,-2,true,null,"é\n\"",{}],"b":{"c":[]},"a2":""})";
  EXPECT_EQ(*parse_exact_json(text), boost::json::parse(text));
  for (const char* bad : {"", "{", "[1,]", "nul", "1 2", "{\"a\":1}x", "\"\xff\"", "[1}", "-", "1."})
    EXPECT_FALSE(parse_exact_json(bad)) << bad;
}

} // namespace
} // namespace paceline::tokenizer
