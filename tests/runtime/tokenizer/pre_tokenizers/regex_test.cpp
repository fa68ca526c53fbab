#include "runtime/tokenizer/pre_tokenizers/regex.hpp"

#include "runtime/base/quote.hpp"

#include <gtest/gtest.h>

#include <random>
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
  EXPECT_EQ(matches(R"([\w]+)", "a\xc2\xb2"), (strings{"a"})) << "a class knows no superscripts";
  EXPECT_EQ(matches(R"(\w+)", "Ⅷ-Ⓐ-⁴"), (strings{"Ⅷ", "Ⓐ"}))
      << "numerals and letters in circles, no other numbers";
  EXPECT_EQ(matches(R"([^\w\s]+)", "a⁴!b"), (strings{"⁴!"}));
  EXPECT_EQ(matches(R"(\b\S)", "e\xcc\x81 x_y"), (strings{"e", "x"}));
  EXPECT_EQ(matches(R"(\B\w)", "abc"), (strings{"b", "c"}));
  EXPECT_EQ(matches(R"(\W+)", "a!?b"), (strings{"!?"}));
}

TEST(regex, errors_escape_and_shorten_the_pattern) {
  for (const std::string pattern : {"\x1b[31m(?s:", "\\p{\x1b[31m}", "[[:\x1b[31m:]]", "\x1b[31m("}) {
    const auto compiled = regex::compile(pattern + std::string(5000, 'x'));
    ASSERT_FALSE(compiled);
    const std::string& message = compiled.error().message();
    EXPECT_EQ(message.find('\x1b'), std::string::npos) << pattern;
    EXPECT_LT(message.size(), 300U) << message;
  }
}

TEST(regex, dollar_is_the_end_of_a_line) { EXPECT_EQ(matches(R"(\s+$)", "a \nb  "), (strings{" ", "  "})); }

TEST(regex, letter_case_is_unicodes) { EXPECT_EQ(matches(R"((?i:é))", "Éé"), (strings{"É", "é"})); }

TEST(regex, what_the_engine_would_read_differently_is_refused) {
  const std::string deep = std::string(40, '[') + "a" + std::string(40, ']');
  for (const std::string pattern :
       {"(", "[a", "[", "[]", "[a&&]", "(?s:.)", "(*UTF)a", R"(\p{Nothing})", R"(\p{x)", R"(\xff)",
        R"(\Qa\E)", R"(\C)", R"(a\)", "[[:nothing:]]", "[[:alpha", deep.c_str()}) {
    const auto compiled = regex::compile(pattern);
    ASSERT_FALSE(compiled) << pattern;
    EXPECT_EQ(compiled.error().code(), errc::unsupported);
    EXPECT_NE(compiled.error().message().find(quote(pattern)), std::string::npos);
  }
  EXPECT_TRUE(regex::compile(R"([[:alpha:]\]]+[]x][^]x])"));
}

TEST(regex, a_pattern_without_end_is_refused) {
  EXPECT_FALSE(regex::compile(std::string(100'000, 'a')));
  EXPECT_TRUE(regex::compile(std::string(10'000, 'a')));
}

TEST(regex, damaged_patterns_are_refused_or_compiled) {
  const std::string whole = R"((?i:'s|\p{^L}{1,3}+)|[^\r\n[\w&&[^_]][:alpha:]\x{e9}\u0061]?\b(?=\h)\s+$)";
  for (std::size_t n = 0; n < whole.size(); ++n) (void)regex::compile(whole.substr(0, n));
  constexpr unsigned seed = 17;
  std::mt19937 random(seed);
  for (int i = 0; i < 20'000; ++i) {
    std::string damaged = whole;
    for (int j = 0; j < 3; ++j)
      damaged[random() % damaged.size()] = "\\[]{}()^&|?+*:-pxub1,\xc3"[random() % 22];
    (void)regex::compile(damaged);
  }
}

TEST(regex, no_match_is_lost_to_the_engines_optimizations) {
  EXPECT_EQ(matches("(?=a)1*a", "ba"), (strings{"a"}));
  EXPECT_EQ(matches(R"(\P{N}*(1)?+^b)", "a\nb"), (strings{"a\nb"}));
}

TEST(regex, classes_hold_classes_and_intersections) {
  EXPECT_EQ(matches("[a-d&&[^b]]+", "abcd"), (strings{"a", "cd"}));
  EXPECT_EQ(matches("[^a-c&&b-d]+", "abcde"), (strings{"a", "de"}));
  EXPECT_EQ(matches("[a[^b-y]]+", "abyz"), (strings{"a", "z"}));
  EXPECT_EQ(matches(R"([\S\n]+)", "a \n"), (strings{"a", "\n"}));
  EXPECT_EQ(matches(R"([^\W_]+)", "a_b!"), (strings{"a", "b"}));
  EXPECT_EQ(matches(R"([]^]+)", "a^]"), (strings{"^]"}));
  EXPECT_EQ(matches("[[b]^]+", "a^b"), (strings{"^b"}));
}

TEST(regex, properties_have_oniguruma_names_and_members) {
  EXPECT_EQ(matches(R"(\p{Uppercase_Letter})", "aB"), (strings{"B"}));
  EXPECT_EQ(matches(R"(\p{^L}+)", "a1b"), (strings{"1"}));
  EXPECT_EQ(matches(R"([[:punct:]]+)", "a$!"), (strings{"!"})) << "no symbols";
  EXPECT_EQ(matches(R"(\p{Han}+)", "一、〇"), (strings{"一", "〇"})) << "scripts, not script extensions";
  EXPECT_EQ(matches(R"(\h+)", "xaF9"), (strings{"aF9"}));
  EXPECT_EQ(matches(R"(\v)", "\n\v"), (strings{"\v"}));
  EXPECT_EQ(matches(R"(\u0061)", "ba"), (strings{"a"}));
}

TEST(regex, intervals_repeat_as_in_ruby) {
  EXPECT_EQ(matches("a{1,2}+b?", "aaaab"), (strings{"aaaab"})) << "not possessive";
  EXPECT_EQ(matches("(?:a){2}?b", "ab"), (strings{"b"})) << "(?:aa)?b";
  EXPECT_EQ(matches("xa{,2}", "xaaa"), (strings{"xaa"}));
  EXPECT_EQ(matches("a{,}b{c", "a{,}b{c"), (strings{"a{,}b{c"})) << "no interval, text";
  EXPECT_EQ(matches("(?m:a.b)", "a\nb"), (strings{"a\nb"}));
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
