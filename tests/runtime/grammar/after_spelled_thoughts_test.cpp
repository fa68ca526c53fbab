#include "runtime/grammar/after_spelled_thoughts.hpp"

#include "tests/support/cycle_constraint.hpp"

#include <gtest/gtest.h>

#include <string>

namespace paceline::grammar {
namespace {

constexpr std::uint32_t vocab_size = 40;
const token_id end{39};

/// Tokens 20 and above have texts; those of the answer's cycle below 20 have a letter each.
std::string spell(token_id token) {
  static const char* const pieces[] = {"</", "<",   "think", "ink>", "<th", ">",           ">\n\n",
                                       ">x", "</t", "hink",  "nk>a", "\n",  "nk>y</think>"};
  if (token.value < 20) return {static_cast<char>('a' + token.value)};
  const auto i = static_cast<std::size_t>(token.value - 20);
  return i < std::size(pieces) ? pieces[i] : "";
}
constexpr int close_begin = 20, less = 21, think = 22, more = 25, more_blank = 26, more_text = 27,
              close_t = 28, hink = 29, nk_text = 30, nk_closed = 32;

std::vector<token_id> ids(std::initializer_list<int> values) { return {values.begin(), values.end()}; }

std::unique_ptr<constraint_cursor> behind_thoughts() {
  return after_spelled_thoughts(test::make_cycle_constraint(vocab_size), "</think>", {end}, spell, vocab_size)
      ->begin();
}

bool allows(constraint_cursor& cursor, const std::vector<token_id>& output, int token,
            const std::vector<token_id>& path = {}) {
  const auto mask = cursor.allowed(output, path);
  const bool allowed = (mask[static_cast<std::size_t>(token) / 32] >> token % 32 & 1U) != 0;
  const token_id id{token};
  EXPECT_EQ(cursor.num_allowed(output, path, {&id, 1}), allowed ? 1U : 0U) << token;
  return allowed;
}

TEST(after_spelled_thoughts, constrain_what_follows_the_closing_mark) {
  const auto cursor = behind_thoughts();
  // Place 0 of the answer allows no multiple of 3.
  EXPECT_TRUE(allows(*cursor, {}, 3)) << "thoughts are free";
  EXPECT_FALSE(allows(*cursor, {}, end.value)) << "but do not end the output";
  for (const auto& close : {ids({close_begin, think, more}), ids({close_t, hink, more}),
                            ids({less, close_begin, think, more_blank})}) {
    const auto last = close.back().value;
    const std::vector<token_id> before(close.begin(), close.end() - 1);
    EXPECT_TRUE(allows(*cursor, before, last));
    EXPECT_TRUE(allows(*cursor, before, 3)) << "this closes nothing";
    EXPECT_FALSE(allows(*cursor, before, more_text)) << "the answer would begin within a token";
    EXPECT_FALSE(allows(*cursor, close, 3));
    EXPECT_TRUE(allows(*cursor, close, 4));
    EXPECT_FALSE(allows(*cursor, before, 3, {&close.back(), &close.back() + 1}))
        << "behind a draft path, too";
  }
  EXPECT_TRUE(allows(*cursor, ids({close_begin}), more_text)) << "no mark is complete";
  EXPECT_EQ(cursor->num_allowed({}, {}, ids({5, close_begin, think, more, 4, 0})), 6U);
  EXPECT_EQ(cursor->num_allowed({}, {}, ids({5, close_begin, think, more, 3})), 4U);
  EXPECT_EQ(cursor->num_allowed({}, {}, ids({5, close_begin, think, more_text, 4})), 3U);
  EXPECT_EQ(cursor->num_allowed({}, {}, ids({5, end.value})), 1U);
}

TEST(after_spelled_thoughts, a_token_may_close_and_no_token_may_close_and_answer) {
  const auto cursor = behind_thoughts();
  EXPECT_FALSE(allows(*cursor, ids({close_t, 7, 8}), nk_text)) << "</thi";
  EXPECT_TRUE(allows(*cursor, ids({close_t, 8}), nk_text)) << "</ti";
  EXPECT_TRUE(allows(*cursor, ids({close_begin}), nk_closed));
  EXPECT_FALSE(allows(*cursor, ids({close_begin, nk_closed}), 3)) << "closed within the token";
}

TEST(after_spelled_thoughts, go_back_to_other_texts) {
  const auto cursor = behind_thoughts();
  EXPECT_FALSE(allows(*cursor, ids({3, close_begin, think, more, 4}), 4));
  EXPECT_TRUE(allows(*cursor, ids({3}), 3));
  EXPECT_TRUE(allows(*cursor, ids({3, close_begin, think, 5}), 3)) << "another text of the same length";
  std::vector<token_id> forced;
  cursor->append_forced(ids({3, 3, 3}), 4, forced);
  EXPECT_TRUE(forced.empty());
  cursor->append_forced(ids({close_begin, think, more, 1, 3, 0}), 4, forced);
  EXPECT_EQ(forced, ids({21, 28})) << "places 3 and 4 of the answer take one token each";
}

} // namespace
} // namespace paceline::grammar
