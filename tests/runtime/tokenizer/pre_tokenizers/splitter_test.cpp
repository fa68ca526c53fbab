#include "runtime/tokenizer/pre_tokenizers/splitter.hpp"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace paceline::tokenizer {
namespace {

using strings = std::vector<std::string>;

strings split(const splitter& what, std::string text) {
  text_pieces pieces(std::move(text));
  regex::scratch work;
  const auto done = what.apply(pieces, work);
  if (!done) return {"error: " + done.error().message()};
  strings out;
  for (const text_range range : pieces.ranges) out.emplace_back(pieces[range]);
  return out;
}

strings split(std::string_view pattern, split_behavior behavior, std::string text, bool invert = false) {
  auto compiled = regex::compile(pattern);
  EXPECT_TRUE(compiled);
  return split(splitter(std::move(*compiled), behavior, invert), std::move(text));
}

// The table in the documentation of Python's tokenizers: "the-final--countdown" split at "-".
TEST(splitter, every_behavior_does_with_matches_what_its_name_says) {
  const std::string text = "the-final--countdown";
  EXPECT_EQ(split("-", split_behavior::removed, text), (strings{"the", "final", "countdown"}));
  EXPECT_EQ(split("-", split_behavior::isolated, text),
            (strings{"the", "-", "final", "-", "-", "countdown"}));
  EXPECT_EQ(split("-", split_behavior::merged_with_previous, text),
            (strings{"the-", "final-", "-", "countdown"}));
  EXPECT_EQ(split("-", split_behavior::merged_with_next, text),
            (strings{"the", "-final", "-", "-countdown"}));
  EXPECT_EQ(split("-", split_behavior::contiguous, text), (strings{"the", "-", "final", "--", "countdown"}));
  EXPECT_EQ(split("[a-z]+", split_behavior::removed, text, true), (strings{"the", "final", "countdown"}));
  EXPECT_EQ(split(splitter(std::string("-"), split_behavior::removed), text),
            (strings{"the", "final", "countdown"}));
}

TEST(splitter, an_empty_match_is_a_border) {
  EXPECT_EQ(split("(?=[A-Z])", split_behavior::isolated, "aBcD"), (strings{"a", "Bc", "D"}));
}

TEST(splitter, no_match_sees_beyond_its_piece) {
  text_pieces pieces("ab ");
  regex::scratch work;
  ASSERT_TRUE(splitter(std::string("b")).apply(pieces, work));
  auto trailing = regex::compile(R"(\s+(?!\S)|^a)");
  ASSERT_TRUE(splitter(std::move(*trailing), split_behavior::removed).apply(pieces, work));
  ASSERT_EQ(pieces.ranges.size(), 1U);
  EXPECT_EQ(pieces[pieces.ranges[0]], "b");
}

TEST(splitter, linear_splits_equal_the_patterns_they_stand_for) {
  constexpr unsigned seed = 5;
  std::mt19937 random(seed);
  const strings alphabet = {"1", "2", "3", "٣", " ", " ", "\n", "\t", "\xc2\xa0", "a", "é", "_", "-", "²"};
  for (const std::string pattern : {R"(\s+$)", R"(\d{1,3}(?=(?:\d{3})*\b))"}) {
    auto compiled = regex::compile(pattern);
    auto linear = splitter::from_pattern(pattern);
    ASSERT_TRUE(compiled && linear);
    const splitter by_definition(std::move(*compiled));
    for (int i = 0; i < 20000; ++i) {
      std::string text;
      const auto num_kinds = 2 + random() % (alphabet.size() - 1);
      for (auto n = random() % 12; n > 0; --n) text += alphabet[random() % num_kinds];
      // d means decimal digits; a superscript is another kind of number and does not match.
      if (text.find("²") != text.npos && pattern[1] == 'd') continue;
      ASSERT_EQ(split(*linear, text), split(by_definition, text)) << "seed " << seed << ": \"" << text << '"';
    }
  }
}

TEST(splitter, digits_group_from_the_right) {
  const splitter groups{digit_groups{}};
  EXPECT_EQ(split(groups, "a1234567b12c123"), (strings{"a", "1", "234", "567", "b", "12", "c", "123"}));
  EXPECT_EQ(split(splitter(digit_groups{true}), "1234b"), (strings{"1234b"}));
}

} // namespace
} // namespace paceline::tokenizer
