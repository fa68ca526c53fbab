#include "apps/terminal_text.hpp"

#include <gtest/gtest.h>

namespace paceline::apps {
namespace {

TEST(for_terminal, keeps_text) {
  for (const auto* text : {"", "plain", "two\nlines\tand a tab", "\u00e4\u20ac\u65e5\U0001F600", "\u00a0~"})
    EXPECT_EQ(for_terminal(text), text);
}

TEST(for_terminal, replaces_control_characters) {
  EXPECT_EQ(for_terminal("\x1b]0;title\a"), "\uFFFD]0;title\uFFFD");
  EXPECT_EQ(for_terminal("seen\rhidden\b\x7f"), "seen\uFFFDhidden\uFFFD\uFFFD");
  EXPECT_EQ(for_terminal("\u0080\u009b31m\u009f\u00a0"), "\uFFFD\uFFFD31m\uFFFD\u00a0");
  EXPECT_EQ(for_terminal(std::string_view("\0", 1)), "\uFFFD");
}

TEST(for_terminal, replaces_bytes_that_are_no_character) {
  // 0x9B begins an escape sequence on terminals that do not read UTF-8.
  EXPECT_EQ(for_terminal("a\x9b"
                         "2Jb"),
            "a\uFFFD2Jb");
}

TEST(for_terminal, a_name_may_be_without_line_breaks) {
  EXPECT_EQ(for_terminal("a\nb\t", ""), "a\uFFFDb\uFFFD");
}

} // namespace
} // namespace paceline::apps
