#include "apps/top/text_layout.hpp"

#include <gtest/gtest.h>

#include <clocale>

namespace paceline::apps {
namespace {

TEST(text_layout, texts_are_cut_and_padded_in_whole_characters) {
  EXPECT_EQ(padded("abc", 5), "abc  ");
  EXPECT_EQ(padded("abcdef", 5), "abcde");
  EXPECT_EQ(padded("\u00e4\u00f6\u00fc", 5), "\u00e4\u00f6\u00fc  ");
  EXPECT_EQ(fitting("\u00e4\u00f6\u00fc", 2), "\u00e4\u00f6");
}

TEST(text_layout, wide_characters_take_two_columns_where_the_locale_knows_them) {
  const std::string before = std::setlocale(LC_CTYPE, nullptr);
  ASSERT_NE(std::setlocale(LC_CTYPE, "C.UTF-8"), nullptr);
  EXPECT_EQ(display_width("\u65e5\u672c"), 4U);
  EXPECT_EQ(padded("\u65e5\u672c", 3), "\u65e5 ");
  std::setlocale(LC_CTYPE, before.c_str());
}

TEST(line_of, leaves_out_whole_parts) {
  const std::vector<line_part> parts{{"name"}, {" 12345", 2}, {" 678", 1}};
  EXPECT_EQ(line_of(parts, 14), "name 12345 678\n");
  EXPECT_EQ(line_of(parts, 13), "name 678\n");
  EXPECT_EQ(line_of(parts, 7), "name\n");
  EXPECT_EQ(line_of(parts, 3), "nam\n");
}

TEST(text_table, the_name_gets_the_room_that_numbers_leave) {
  const std::vector<table_column> numbers{{"ONE", 4, 1}, {"TWO", 5, 2}};
  const auto head_in = [&](std::size_t columns) { return text_table("NAME", numbers, columns).head(); };
  EXPECT_EQ(head_in(100), "NAME                      ONE   TWO\n");
  EXPECT_EQ(head_in(23), "NAME          ONE   TWO\n");
  EXPECT_EQ(head_in(18), "NAME           ONE\n");
  EXPECT_EQ(head_in(10), "NAME      \n");
  EXPECT_EQ(text_table("NAME OF ALL", numbers, 16).head(), "NAME OF ALL  ONE\n");
  EXPECT_EQ(text_table("NAME", numbers, 18).row("a name that is long", {"1", "2"}), "a name that i    1\n");
}

TEST(page_of, lines_are_erased_before_they_are_written) {
  EXPECT_EQ(page_of("one\ntwo\n", 10), "\x1b[H\x1b[Kone\n\x1b[Ktwo\n\x1b[J");
}

TEST(page_of, there_are_no_more_lines_than_the_terminal_has) {
  EXPECT_EQ(page_of("one\ntwo\nthree\n", 2), "\x1b[H\x1b[Kone\n\x1b[Ktwo");
}

} // namespace
} // namespace paceline::apps
