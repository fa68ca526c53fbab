#include "runtime/tokenizer/added_tokens.hpp"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace paceline::tokenizer {
namespace {

added_token token(int id, std::string spelling, bool special = false) {
  added_token out;
  out.id = token_id{id};
  out.spelling = std::move(spelling);
  out.special = special;
  return out;
}

/// Plain texts unchanged, tokens as "#id".
std::vector<std::string> split(const added_tokens& tokens, std::string_view text, bool parse_special = true) {
  std::vector<std::string> out;
  for (const auto& segment : tokens.split(text, parse_special))
    out.push_back(segment.token ? "#" + to_string(*segment.token)
                                : std::string(text.substr(segment.range.begin,
                                                          segment.range.end - segment.range.begin)));
  return out;
}

using strings = std::vector<std::string>;

TEST(added_tokens, the_longest_spelling_wins_at_one_place_in_either_order) {
  for (const auto order : {match_order::longest_spelling, match_order::leftmost}) {
    const added_tokens tokens({token(1, "\n"), token(2, "\n\n\n"), token(3, "\n\n")}, order);
    EXPECT_EQ(split(tokens, "a\n\n\n\n\nb"), (strings{"a", "#2", "#3", "b"}));
    EXPECT_EQ(split(tokens, ""), strings{});
    EXPECT_EQ(split(tokens, "\n"), strings{"#1"});
  }
}

TEST(added_tokens, overlapping_spellings_are_settled_by_length_or_by_place) {
  const std::vector<added_token> both = {token(1, "ab"), token(2, "bcd")};
  EXPECT_EQ(split({both, match_order::longest_spelling}, "abcd"), (strings{"a", "#2"}));
  EXPECT_EQ(split({both, match_order::leftmost}, "abcd"), (strings{"#1", "cd"}));
}

TEST(added_tokens, special_spellings_are_text_unless_asked_for) {
  for (const auto order : {match_order::longest_spelling, match_order::leftmost}) {
    const added_tokens tokens({token(1, "<s>", true), token(2, "<u>")}, order);
    EXPECT_EQ(split(tokens, "<s>x<u>", true), (strings{"#1", "x", "#2"}));
    EXPECT_EQ(split(tokens, "<s>x<u>", false), (strings{"<s>x", "#2"}));
  }
}

TEST(added_tokens, stripping_takes_spaces_along) {
  auto left = token(1, "<l>");
  left.strip_left = true;
  auto right = token(2, "<r>");
  right.strip_right = true;
  for (const auto order : {match_order::longest_spelling, match_order::leftmost}) {
    const added_tokens tokens({left, right}, order);
    EXPECT_EQ(split(tokens, "a \t\xc2\xa0<l> b"), (strings{"a", "#1", " b"}));
    EXPECT_EQ(split(tokens, "a <r> \n b"), (strings{"a ", "#2", "b"}));
    EXPECT_EQ(split(tokens, " <r>  <l> "), (strings{" ", "#2", "#1", " "}));
  }
}

TEST(added_tokens, leftmost_search_looks_for_nothing_inside_a_spelling) {
  auto special = token(1, "<file_sep>");
  special.special = true;
  const added_tokens tokens({special, token(2, "<file"), token(3, ">")}, match_order::leftmost);
  EXPECT_EQ(split(tokens, "<file_sep>x<file"), (strings{"#1", "x", "#2"}));
  EXPECT_EQ(split(tokens, "<file_sep>x<file", false), (strings{"<file_sep>x", "#2"}))
      << "nor where it is text";
}

TEST(added_tokens, a_word_goes_on_over_joiners_and_ends_at_superscripts) {
  auto word = token(1, "an");
  word.single_word = true;
  const added_tokens tokens({word}, match_order::leftmost);
  EXPECT_EQ(split(tokens, "an\xe2\x80\x8d an\xc2\xb2"), (strings{"an\xe2\x80\x8d ", "#1", "\xc2\xb2"}));
}

TEST(added_tokens, a_single_word_does_not_match_inside_one) {
  auto word = token(1, "an");
  word.single_word = true;
  const added_tokens tokens({word}, match_order::leftmost);
  EXPECT_EQ(split(tokens, "an (an) banana man"), (strings{"#1", " (", "#1", ") banana man"}));
}

TEST(added_tokens, splitting_by_length_equals_splitting_token_by_token) {
  constexpr unsigned seed = 3;
  std::mt19937 random(seed);
  for (int round = 0; round < 300; ++round) {
    std::vector<added_token> list;
    strings spellings;
    for (int i = 0; i < 6; ++i) {
      std::string spelling;
      for (auto n = 1 + random() % 4; n > 0; --n) spelling.push_back(static_cast<char>('a' + random() % 2));
      if (std::find(spellings.begin(), spellings.end(), spelling) != spellings.end()) continue;
      list.push_back(token(i, spelling));
      spellings.push_back(spelling);
    }
    std::string text;
    for (auto n = random() % 20; n > 0; --n) text.push_back(static_cast<char>('a' + random() % 3));
    // The definition, applied to a text in which matches are replaced by digits: longer tokens first, equally
    // long ones by id.
    auto by_length = list;
    std::sort(by_length.begin(), by_length.end(), [](const auto& a, const auto& b) {
      return a.spelling.size() != b.spelling.size() ? a.spelling.size() > b.spelling.size() : a.id < b.id;
    });
    std::string marked = text;
    std::vector<int> found_at(text.size(), -1);
    for (const auto& t : by_length)
      for (auto at = marked.find(t.spelling); at != marked.npos; at = marked.find(t.spelling)) {
        marked.replace(at, t.spelling.size(), std::string(t.spelling.size(), '0'));
        found_at[at] = t.id.value;
      }
    strings expected;
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (found_at[i] >= 0)
        expected.push_back("#" + std::to_string(found_at[i]));
      else if (marked[i] != '0') {
        if (expected.empty() || expected.back()[0] == '#') expected.emplace_back();
        expected.back().push_back(text[i]);
      }
    }
    ASSERT_EQ(split({list, match_order::longest_spelling}, text), expected)
        << "seed " << seed << ", round " << round;
  }
}

} // namespace
} // namespace paceline::tokenizer
