#include "runtime/base/quote.hpp"

#include <gtest/gtest.h>

#include <string>

namespace paceline {
namespace {

TEST(quote, only_printable_ascii_is_shown_as_it_is) {
  EXPECT_EQ(quote("a b~"), "'a b~'");
  EXPECT_EQ(quote(std::string_view("\x1b[31m\n\0\x7f\xc3\xa9", 10)), "'\\x1b[31m\\x0a\\x00\\x7f\\xc3\\xa9'");
  EXPECT_EQ(escaped("a\rb"), "a\\x0db");
}

TEST(quote, a_long_text_is_shortened) {
  EXPECT_EQ(quote(std::string(64, 'x')), "'" + std::string(64, 'x') + "'");
  EXPECT_EQ(quote(std::string(5000, 'x')), "'" + std::string(64, 'x') + "...'");
}

} // namespace
} // namespace paceline
