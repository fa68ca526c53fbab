#include "runtime/grammar/after_thoughts.hpp"

#include "tests/support/cycle_constraint.hpp"

#include <gtest/gtest.h>

namespace paceline::grammar::after_thoughts_test {
namespace {

constexpr std::uint32_t vocab_size = 40;
const token_id open{30}, close{31}, end{32};

std::vector<token_id> ids(std::initializer_list<int> values) { return {values.begin(), values.end()}; }

std::shared_ptr<const token_constraint> behind(bool prompt_opens) {
  return after_thoughts(test::make_cycle_constraint(vocab_size),
                        {prompt_opens ? std::nullopt : std::optional(open), close, {end}}, vocab_size);
}

bool allows(constraint_cursor& cursor, const std::vector<token_id>& output, token_id token,
            const std::vector<token_id>& path = {}) {
  const auto mask = cursor.allowed(output, path);
  const auto index = static_cast<std::size_t>(token.value);
  const bool allowed = (mask[index / 32] >> index % 32 & 1U) != 0;
  EXPECT_EQ(cursor.num_allowed(output, path, {&token, 1}), allowed ? 1U : 0U) << to_string(token);
  return allowed;
}

TEST(after_thoughts, constrain_what_follows_the_closing_token) {
  const auto constraint = behind(true);
  const auto cursor = constraint->begin();
  // Place 0 of the answer allows no multiple of 3.
  EXPECT_TRUE(allows(*cursor, {}, token_id{3})) << "thoughts are free";
  EXPECT_FALSE(allows(*cursor, {}, end)) << "but do not end the output";
  EXPECT_TRUE(allows(*cursor, ids({3, 6}), close));
  EXPECT_FALSE(allows(*cursor, ids({3, 6, 31}), token_id{3}));
  EXPECT_TRUE(allows(*cursor, ids({3, 6, 31}), token_id{4}));
  EXPECT_FALSE(allows(*cursor, ids({3}), token_id{3}, ids({6, 31}))) << "behind a draft path, too";
  EXPECT_TRUE(allows(*cursor, ids({3}), token_id{3}, ids({6}))) << "and back";
  const auto next = ids({5, 31, 4, 0});
  EXPECT_EQ(cursor->num_allowed({}, {}, next), 4U);
  EXPECT_EQ(cursor->num_allowed({}, {}, ids({5, 31, 3})), 2U);
  EXPECT_EQ(cursor->num_allowed({}, {}, ids({5, 32})), 1U);
}

TEST(after_thoughts, may_be_left_out_where_the_prompt_has_not_opened_them) {
  const auto constraint = behind(false);
  const auto cursor = constraint->begin();
  EXPECT_TRUE(allows(*cursor, {}, open));
  EXPECT_TRUE(allows(*cursor, {}, token_id{4}));
  EXPECT_FALSE(allows(*cursor, {}, token_id{3}));
  EXPECT_TRUE(allows(*cursor, ids({30}), token_id{3}));
  EXPECT_FALSE(allows(*cursor, ids({30, 3, 31}), token_id{3}));
  EXPECT_FALSE(allows(*cursor, ids({4}), token_id{4})) << "an output that begins otherwise is all answer";
  EXPECT_EQ(cursor->num_allowed({}, {}, ids({30, 3, 31, 4})), 4U);
  EXPECT_EQ(cursor->num_allowed({}, {}, ids({4, 3})), 2U);
}

TEST(after_thoughts, force_only_what_the_answer_forces) {
  const auto cursor = behind(true)->begin();
  std::vector<token_id> forced;
  cursor->append_forced(ids({3, 3, 3}), 4, forced);
  EXPECT_TRUE(forced.empty());
  cursor->append_forced(ids({3, 31, 1, 3, 0}), 4, forced); // places 3 and 4 of the answer take one token each
  EXPECT_EQ(forced, ids({21, 28}));
}

} // namespace
} // namespace paceline::grammar::after_thoughts_test
