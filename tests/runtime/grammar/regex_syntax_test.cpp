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
      {"(a)\\1", errc::unsupported},
      {"\\bword", errc::unsupported},
      {"\\p{L}", errc::unsupported},
      {"(?i)a", errc::unsupported},
      {"a{99999999999}", errc::unsupported},
      {"\\ud800", errc::unsupported},
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
  for (const char* pattern : {"a^b", "(a$)b", "a(b|^c)"})
    EXPECT_FALSE(to_ebnf(*parse_regex(pattern), text_form::plain, true, add_rule)) << pattern;
  for (const char* pattern : {"^ab$", "(^a|b$)", "^(a|b)$"})
    EXPECT_TRUE(to_ebnf(*parse_regex(pattern), text_form::plain, true, add_rule)) << pattern;
}

} // namespace
} // namespace paceline::grammar
