#include "runtime/grammar/regex_syntax.hpp"
#include "runtime/grammar/text_automaton.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

namespace paceline::grammar {
namespace {

bool finds(std::string_view pattern, std::string_view text) {
  const auto regex = parse_regex(pattern);
  EXPECT_TRUE(regex) << pattern;
  std::size_t work = 1'000'000;
  const auto automaton =
      regex ? text_automaton::make(
                  {{.regex = &*regex}}, [](std::uint64_t obeyed) { return obeyed == 1; }, 100, work)
            : std::nullopt;
  EXPECT_TRUE(automaton) << pattern;
  return automaton && automaton->accepts(text);
}

TEST(regex, matches_as_ecmascript_does) {
  EXPECT_TRUE(finds("b+", "abbc"));
  EXPECT_FALSE(finds("^b+", "abbc"));
  EXPECT_TRUE(finds("^a(b|c){2,3}$", "abcb"));
  EXPECT_FALSE(finds("^a(b|c){2,3}$", "ab"));
  EXPECT_FALSE(finds("^a(b|c){2,3}$", "abcbc"));
  EXPECT_TRUE(finds("^[^a-c\\d]$", "é"));
  EXPECT_FALSE(finds("^.$", "\n"));
  EXPECT_TRUE(finds("^\\s\\S$", "\xC2\xA0x"));
  EXPECT_TRUE(finds("^(a*)*$", "aaa"));
  EXPECT_TRUE(finds("x^|a$|^b", "ca"));
  EXPECT_FALSE(finds("a$b|x^", "xab"));
  EXPECT_TRUE(finds("", ""));
  EXPECT_TRUE(finds("^a{3}$", "aaa"));
  EXPECT_FALSE(finds("^a{3}$", "aa"));
}

TEST(regex, a_hyphen_beside_a_class_is_a_character) {
  for (const char* pattern : {"^[\\w-.]+$", "^[\\w-\\.]+$", "^[.-\\w]+$", "^[.\\w-]+$"}) {
    EXPECT_TRUE(finds(pattern, "a-b.c_9")) << pattern;
    EXPECT_FALSE(finds(pattern, "a/b")) << pattern;
    EXPECT_FALSE(finds(pattern, "a,b")) << pattern;
  }
  EXPECT_TRUE(finds("^[\\d-\\s]+$", "1- 2"));
  EXPECT_FALSE(finds("^[^\\w-.]$", "-"));
  EXPECT_FALSE(finds("^[+-.]$", "*")) << "a range";
  EXPECT_TRUE(finds("^[+-.]$", ","));
}

TEST(regex, look_ahead_at_the_beginning_concerns_the_whole_text) {
  const char* const decimal = "^(?!^[-+.]*$)[+-]?0*\\d*\\.?\\d*$";
  for (const char* text : {"1", "-1.50", ".5", "+0.", "007"}) EXPECT_TRUE(finds(decimal, text)) << text;
  for (const char* text : {"", "-", ".", "+.", "1.2.3", "a"}) EXPECT_FALSE(finds(decimal, text)) << text;
  const char* const mail = "^(?!\\.)(?!.*\\.\\.)([A-Za-z0-9_'+\\-\\.]*)[A-Za-z0-9_+-]@"
                           "([A-Za-z0-9][A-Za-z0-9\\-]*\\.)+[A-Za-z]{2,}$";
  for (const char* text : {"a@b.de", "a.b+c@d-e.org"}) EXPECT_TRUE(finds(mail, text)) << text;
  for (const char* text : {".a@b.de", "a..b@c.de", "a.@b.de", "a@b", "a@b..de"})
    EXPECT_FALSE(finds(mail, text)) << text;
  EXPECT_TRUE(finds("^(?=.*\\d)(?=.*[a-z]).{3,5}$", "ab1"));
  EXPECT_FALSE(finds("^(?=.*\\d)(?=.*[a-z]).{3,5}$", "abc"));
  EXPECT_TRUE(finds("^(?!ab|c)", "ac")) << "the rest is empty";
  EXPECT_FALSE(finds("^(?!ab|c)", "cd"));
}

TEST(regex, two_halves_of_a_character_are_one) {
  EXPECT_TRUE(finds("^\\uD83D\\uDE00$", "\xF0\x9F\x98\x80"));
  EXPECT_TRUE(finds("^[\\ud83d\\ude00-\\ud83d\\ude02]$", "\xF0\x9F\x98\x81"));
  EXPECT_FALSE(finds("^[\\ud83d\\ude00-\\ud83d\\ude02]$", "\xF0\x9F\x98\x83"));
}

TEST(regex, automata_know_their_longest_texts) {
  const auto make = [](const char* pattern, std::uint32_t min, std::size_t max_states) {
    const auto regex = *parse_regex(pattern);
    std::size_t work = 1'000'000;
    return text_automaton::make(
        {{.regex = &regex}, {.min_length = min}}, [](std::uint64_t obeyed) { return obeyed == 3; },
        max_states, work);
  };
  EXPECT_EQ(make("^a{2,5}$", 0, 100)->longest_text(), 5U);
  EXPECT_EQ(make("^a{2,5}$", 0, 100)->longest_beginning(), 1U);
  EXPECT_EQ(make("^a*$", 3, 100)->longest_text(), std::nullopt);
  EXPECT_EQ(make("^a*$", 3, 100)->longest_beginning(), 2U);
  EXPECT_EQ(make("^(ab)*$", 0, 100)->longest_beginning(), std::nullopt);
  EXPECT_FALSE(make("a.{8}$", 0, 100)) << "it has 512 states";
}

TEST(regex, refuses_what_it_cannot_keep) {
  const std::vector<std::pair<std::string, errc>> cases{
      {"^+", errc::invalid_argument},
      {"a**", errc::invalid_argument},
      {"(", errc::invalid_argument},
      {")", errc::invalid_argument},
      {"[", errc::invalid_argument},
      {"[z-a]", errc::invalid_argument},
      {"[]", errc::invalid_argument},
      {"a{2,1}", errc::invalid_argument},
      {"\\", errc::invalid_argument},
      {"\xFF", errc::invalid_argument},
      {"(?=a)", errc::unsupported},
      {"(?<!a)b", errc::unsupported},
      {"^a(?=b)", errc::unsupported},
      {"^((?!a)b)", errc::unsupported},
      {"^(?!(?=a)b)", errc::unsupported},
      {"^(?!a)b|c", errc::unsupported},
      {"^(?!a)*b", errc::invalid_argument},
      {"^(?!a", errc::invalid_argument},
      {"(a)\\1", errc::unsupported},
      {"\\bword", errc::unsupported},
      {"\\p{L}", errc::unsupported},
      {"(?i)a", errc::unsupported},
      {"a{99999999999}", errc::unsupported},
      {"\\ud800", errc::unsupported},
      {"\\ud83d\\u0041", errc::unsupported},
      {"\\ude00\\ud83d", errc::unsupported},
      {"[\\ud83d\\u00zz]", errc::invalid_argument},
      {"((a{1,50}){1,50}){1,50}", errc::unsupported},
  };
  for (const auto& [pattern, code] : cases) {
    const auto regex = parse_regex(pattern);
    ASSERT_FALSE(regex) << pattern;
    EXPECT_EQ(regex.error().code(), code) << pattern << ": " << regex.error().message();
    EXPECT_TRUE(regex.error().message().starts_with("position ")) << regex.error().message();
  }
  for (const char* repeated : {"(", "[", "a?", ".*"}) {
    std::string text;
    for (int i = 0; i < 60'000; ++i) text += repeated;
    EXPECT_FALSE(parse_regex(text)) << repeated;
  }
}

/// A set of `count` letters that are not adjacent.
std::string many_ranges(std::uint32_t count) {
  std::string out = "[";
  std::array<char, 8> escape{};
  for (std::uint32_t i = 0; i < count; ++i) {
    std::snprintf(escape.data(), escape.size(), "\\u%04x", 0x100 + 2 * i);
    out += escape.data();
  }
  return out + "]";
}

TEST(regex, ranges_of_sets_count) {
  EXPECT_TRUE(parse_regex("^" + many_ranges(1'000) + "{1,20}$"));
  EXPECT_TRUE(parse_regex("^[^\\s]{1,2000}$"));
  for (const auto& pattern : {many_ranges(32'000), many_ranges(1'000) + "{1,200}"}) {
    const auto regex = parse_regex(pattern);
    ASSERT_FALSE(regex);
    EXPECT_EQ(regex.error().code(), errc::unsupported);
  }
  // Characters that no set tells apart are looked at once.
  const auto regex = *parse_regex("^" + many_ranges(1'000) + "{1,20}$");
  std::size_t work = 150'000;
  const auto automaton = text_automaton::make(
      {{.regex = &regex}}, [](std::uint64_t obeyed) { return obeyed == 1; }, 100, work);
  ASSERT_TRUE(automaton);
  EXPECT_TRUE(automaton->accepts("\u0100\u0102\u08ce"));
  EXPECT_FALSE(automaton->accepts("\u0100\u0101"));
  EXPECT_FALSE(automaton->accepts("\u08d0"));
}

TEST(regex, an_anchor_inside_is_refused_as_a_grammar) {
  const auto add_rule = [](const std::string&) { return std::string("r"); };
  for (const char* pattern : {"a^b", "(a$)b", "a(b|^c)", "^(?!a)b$"})
    EXPECT_FALSE(to_ebnf(*parse_regex(pattern), text_form::plain, true, add_rule)) << pattern;
  for (const char* pattern : {"^ab$", "(^a|b$)", "^(a|b)$"})
    EXPECT_TRUE(to_ebnf(*parse_regex(pattern), text_form::plain, true, add_rule)) << pattern;
}

} // namespace
} // namespace paceline::grammar
