#include "protocol/wire/json_writer.hpp"

#include "runtime/base/utf8.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace paceline::wire {
namespace {

std::string quoted(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

TEST(json_writer, separates_members_and_elements) {
  json_writer out;
  out.begin_object().field("a", 1).key("b").begin_array().value(true).null().value("x").end_array();
  out.key("c").begin_object().end_object().end_object();
  EXPECT_EQ(out.take(), R"({"a":1,"b":[true,null,"x"],"c":{}})");
}

TEST(json_writer, prints_numbers_in_their_shortest_exact_form) {
  json_writer out;
  out.begin_array().value(1.0).value(0.1F).value(-2.5).value(std::uint64_t{18446744073709551615U});
  out.value(std::int64_t{-9223372036854775807} - 1).end_array();
  EXPECT_EQ(out.take(), "[1.0,0.1,-2.5,18446744073709551615,-9223372036854775808]");
}

TEST(json_writer, prints_numbers_as_people_read_them) {
  json_writer out;
  out.begin_array().value(114.191364).value(100000.0).value(0.0000125).value(2.5e14).value(1e-9).end_array();
  EXPECT_EQ(out.take(), "[114.191364,100000.0,0.0000125,250000000000000.0,1e-09]");
}

TEST(json_writer, prints_what_json_cannot_hold_as_a_finite_number) {
  json_writer out;
  out.begin_array()
      .value(-std::numeric_limits<float>::infinity())
      .value(std::numeric_limits<double>::quiet_NaN());
  EXPECT_EQ(out.end_array().take(), "[-9999.0,-9999.0]");
}

TEST(json_writer, escapes_control_characters_and_quotes) {
  EXPECT_EQ(quoted("a\"\\\n\r\t\x01\x7f/"), R"("a\"\\\n\r\t\u0001\u007f/")");
}

TEST(json_writer, escapes_the_line_separators_that_stream_readers_split_at) {
  EXPECT_EQ(quoted("\xc2\x85\xe2\x80\xa8\xe2\x80\xa9\xe2\x80\xaa"), "\"\\u0085\\u2028\\u2029\xe2\x80\xaa\"");
}

TEST(json_writer, replaces_every_kind_of_broken_utf8) {
  for (const auto* broken :
       {"\x80", "\xc2", "\xc0\xaf", "\xe0\x80\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xf8", "\xff"})
    EXPECT_EQ(quoted(broken).find("\"\\ufffd"), 0U)
        << static_cast<int>(static_cast<unsigned char>(broken[0]));
  EXPECT_EQ(quoted("a\xe2\x82"), R"("a\ufffd\ufffd")");
  EXPECT_EQ(quoted("\xf0\x9f\x98\x80"), "\"\xf0\x9f\x98\x80\"");
}

TEST(json_writer, every_pair_of_bytes_prints_as_valid_utf8) {
  for (int a = 0; a < 256; ++a)
    for (int b = 0; b < 256; ++b) {
      const char pair[] = {static_cast<char>(a), static_cast<char>(b)};
      ASSERT_TRUE(is_well_formed_utf8(quoted({pair, 2}))) << a << ' ' << b;
    }
}

TEST(json_writer, counts_code_points_not_bytes) {
  EXPECT_EQ(count_code_points("a\xc3\xa9\xf0\x9f\x98\x80"), 3U);
  EXPECT_EQ(count_code_points(""), 0U);
}

} // namespace
} // namespace paceline::wire
