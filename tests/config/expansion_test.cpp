#include "config/expansion.hpp"

#include <gtest/gtest.h>

namespace paceline::config {
namespace {

const environment variables{{"HOME", "/home/a"}, {"EMPTY", ""}, {"LINES", "a\nb"}, {"TEXT", "${HOME}"}};

TEST(expansion_test, variables_are_put_in) {
  EXPECT_EQ(*expand("${HOME}/models/${HOME}", variables), "/home/a/models//home/a");
  EXPECT_EQ(*expand("plain", variables), "plain");
  EXPECT_EQ(*expand("a${EMPTY}b", variables), "ab");
  EXPECT_EQ(*expand("$$HOME costs $$5", variables), "$HOME costs $5");
}

TEST(expansion_test, values_are_not_expanded_again) { EXPECT_EQ(*expand("${TEXT}", variables), "${HOME}"); }

TEST(expansion_test, a_default_stands_in_for_unset_and_empty_variables) {
  EXPECT_EQ(*expand("${NONE:-8080}", variables), "8080");
  EXPECT_EQ(*expand("${EMPTY:-8080}", variables), "8080");
  EXPECT_EQ(*expand("${NONE:-}", variables), "");
  EXPECT_EQ(*expand("${HOME:-x}", variables), "/home/a");
}

TEST(expansion_test, every_bad_reference_is_an_error_that_names_the_variable_or_the_rule) {
  const std::pair<const char*, const char*> cases[] = {
      {"${NONE}", "NONE is not set"},
      {"${NONE:?give a key}", "NONE is needed: give a key"},
      {"${EMPTY:?give it}", "give it"},
      {"${LINES}", "line break"},
      {"$HOME", "$$"},
      {"5$", "$$"},
      {"${HOME", "without '}'"},
      {"${}", "is none of"},
      {"${9LIVES}", "is none of"},
      {"${A B}", "is none of"},
      {"${HOME:x}", "is none of"},
      {"${HOME-x}", "is none of"},
  };
  for (const auto& [text, part] : cases) {
    const auto out = expand(text, variables);
    ASSERT_FALSE(out) << text;
    EXPECT_NE(out.error().message().find(part), std::string::npos) << text << ": " << out.error().message();
  }
}

} // namespace
} // namespace paceline::config
