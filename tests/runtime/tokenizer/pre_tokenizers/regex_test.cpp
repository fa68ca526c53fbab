#include "runtime/tokenizer/pre_tokenizers/regex.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace paceline::tokenizer {
namespace {

std::vector<std::string> matches(std::string_view pattern, std::string_view text) {
  auto compiled = regex::compile(pattern);
  if (!compiled) return {"error: " + compiled.error().message()};
  regex::scratch work;
  std::vector<std::string> out;
  for (std::size_t from = 0; from <= text.size();) {
    auto found = compiled->find(text, from, work);
    if (!found) return {"error: " + found.error().message()};
    if (!*found) break;
    out.emplace_back(text.substr((*found)->begin, (*found)->end - (*found)->begin));
    from = (*found)->end + ((*found)->begin == (*found)->end ? 1 : 0);
  }
  return out;
}

using strings = std::vector<std::string>;

TEST(regex, spaces_are_unicodes_white_space) {
  EXPECT_EQ(matches(R"(\s)", "a\xc2\x85\xc2\xa0\xe2\x80\x83\xe3\x80\x80"),
            (strings{"\xc2\x85", "\xc2\xa0", "\xe2\x80\x83", "\xe3\x80\x80"}));
  EXPECT_EQ(matches(R"(\s)", "\xe1\xa0\x8e\xe2\x80\x8b"), strings{}) << "U+180E and U+200B are none";
  EXPECT_EQ(matches(R"([^\s]+)", "a b"), (strings{"a", "b"}));
  EXPECT_EQ(matches(R"(\S+)", "a\xc2\xa0\x62"), (strings{"a", "b"}));
}

TEST(regex, word_characters_include_marks_and_connectors) {
  EXPECT_EQ(matches(R"(\w+)", "e\xcc\x81_1 \xc2\xb2-x"), (strings{"e\xcc\x81_1", "\xc2\xb2", "x"}));
  EXPECT_EQ(matches(R"(\w+)", "Ⅷ-Ⓐ-⁴"), (strings{"Ⅷ", "Ⓐ"})) << "numerals and letters in circles, no other numbers";
  EXPECT_EQ(matches(R"([^\w\s]+)", "a⁴!b"), (strings{"⁴!"}));
  EXPECT_EQ(matches(R"(\b\S)", "e\xcc\x81 x_y"), (strings{"e", "x"}));
  EXPECT_EQ(matches(R"(\B\w)", "abc"), (strings{"b", "c"}));
  EXPECT_EQ(matches(R"(\W+)", "a!?b"), (strings{"!?"}));
}

TEST(regex, dollar_is_the_end_of_a_line) { EXPECT_EQ(matches(R"(\s+$)", "a \nb  "), (strings{" ", "  "})); }

TEST(regex, letter_case_is_unicodes) { EXPECT_EQ(matches(R"((?i:é))", "Éé"), (strings{"É", "é"})); }

TEST(regex, what_the_engine_would_read_differently_is_refused) {
  for (const char* pattern : {R"([a-z&&[^e]])", R"([[a]b])", R"(\h)", R"([\h])", "(", "[a"}) {
    const auto compiled = regex::compile(pattern);
    ASSERT_FALSE(compiled) << pattern;
    EXPECT_EQ(compiled.error().code(), errc::unsupported);
    EXPECT_NE(compiled.error().message().find(pattern), std::string::npos);
  }
  EXPECT_TRUE(regex::compile(R"([[:alpha:]\]]+[]x][^]x])"));
}

TEST(regex, a_search_without_end_is_an_error) {
  const auto compiled = regex::compile("(?:a+)+$");
  ASSERT_TRUE(compiled);
  regex::scratch work;
  const auto found = compiled->find(std::string(64, 'a') + "b", 0, work);
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code(), errc::resource_exhausted);
}

TEST(regex, a_deep_match_outgrows_no_stack) {
  const auto compiled = regex::compile("(?:a|b)*c");
  ASSERT_TRUE(compiled);
  regex::scratch work;
  const auto found = compiled->find(std::string(300'000, 'a') + "c", 0, work);
  ASSERT_TRUE(found) << found.error().message();
  EXPECT_EQ((*found)->end, 300'001U);
}

} // namespace
} // namespace paceline::tokenizer
