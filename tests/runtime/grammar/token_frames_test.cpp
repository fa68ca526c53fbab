#include "runtime/grammar/token_frames.hpp"

#include "runtime/grammar/after_thoughts.hpp"
#include "tests/support/cycle_constraint.hpp"

#include <gtest/gtest.h>

#include <set>

namespace paceline::grammar::token_frames_test {
namespace {

constexpr std::uint32_t vocab_size = 40;

std::vector<token_id> ids(std::initializer_list<int> values) { return {values.begin(), values.end()}; }

/// [30 31] or [30 32 33] before an answer.
std::shared_ptr<const token_constraint> two_frames() {
  const auto answer = test::make_cycle_constraint(vocab_size);
  return any_frame({{ids({30, 31}), answer}, {ids({30, 32, 33}), answer}}, vocab_size);
}

std::set<int> allowed(constraint_cursor& cursor, const std::vector<token_id>& output,
                      const std::vector<token_id>& path = {}) {
  const auto mask = cursor.allowed(output, path);
  std::set<int> out;
  for (int i = 0; i < static_cast<int>(vocab_size); ++i) {
    const bool is_set = (mask[static_cast<std::size_t>(i) / 32] >> i % 32 & 1U) != 0;
    if (is_set) out.insert(i);
  }
  for (int i = 0; i < static_cast<int>(vocab_size); ++i) {
    const token_id token{i};
    EXPECT_EQ(cursor.num_allowed(output, path, {&token, 1}), out.count(i)) << i;
  }
  return out;
}

TEST(token_frames, allow_one_of_the_leads_and_then_its_answer) {
  const auto cursor = two_frames()->begin();
  const auto of_answer = allowed(*test::make_cycle_constraint(vocab_size)->begin(), {});
  using tokens = std::set<int>;
  EXPECT_EQ(allowed(*cursor, {}), tokens{30});
  EXPECT_EQ(allowed(*cursor, ids({30})), (tokens{31, 32}));
  EXPECT_EQ(allowed(*cursor, {}, ids({30, 32})), tokens{33});
  EXPECT_EQ(allowed(*cursor, ids({30, 31})), of_answer);
  EXPECT_EQ(allowed(*cursor, ids({30}), ids({32, 33})), of_answer) << "the lead ends in a draft";
  EXPECT_EQ(allowed(*cursor, ids({30}), ids({31})), of_answer) << "and back";
  EXPECT_TRUE(allowed(*cursor, ids({5})).empty());
}

TEST(token_frames, pass_on_what_stands_behind_a_lead) {
  const auto cursor = two_frames()->begin();
  const auto plain = test::make_cycle_constraint(vocab_size)->begin();
  EXPECT_EQ(allowed(*cursor, ids({30, 31, 4}), ids({2})), allowed(*plain, ids({4}), ids({2})));
  EXPECT_EQ(cursor->num_allowed({}, {}, ids({30, 31, 4, 3})), 2U + plain->num_allowed({}, {}, ids({4, 3})));
  EXPECT_EQ(cursor->num_allowed({}, {}, ids({30, 33})), 1U);
  EXPECT_EQ(cursor->num_allowed(ids({30}), ids({32}), ids({33})), 1U);
}

TEST(token_frames, force_what_all_leads_have) {
  const auto cursor = two_frames()->begin();
  std::vector<token_id> forced;
  cursor->append_forced({}, 8, forced);
  EXPECT_EQ(forced, ids({30}));
  forced.clear();
  cursor->append_forced(ids({30, 32}), 8, forced);
  EXPECT_EQ(forced, ids({33}));
  forced.clear();
  cursor->append_forced({}, 0, forced);
  EXPECT_TRUE(forced.empty());
  cursor->append_forced(ids({30, 31, 1, 3, 0}), 4, forced);
  EXPECT_EQ(forced, ids({21, 28})) << "as the answer says";
}

/// The frame of a model that thinks in a separate message: [1 thoughts 2 30 31] or [30 31], then the answer.
TEST(token_frames, stand_behind_thoughts) {
  const auto answer = test::make_cycle_constraint(vocab_size);
  const auto behind = after_thoughts(any_frame({{ids({30, 31}), answer}}, vocab_size),
                                     {std::nullopt, token_id{2}, {token_id{0}}}, vocab_size);
  const auto cursor = any_frame({{ids({30, 31}), answer}, {ids({1}), behind}}, vocab_size)->begin();
  EXPECT_EQ(allowed(*cursor, {}), (std::set<int>{1, 30}));
  EXPECT_EQ(allowed(*cursor, ids({1, 7})).size(), vocab_size - 1) << "free, without the end";
  EXPECT_EQ(allowed(*cursor, ids({1, 7, 2})), std::set<int>{30});
  EXPECT_EQ(allowed(*cursor, ids({1}), ids({7, 2, 30, 31})), allowed(*answer->begin(), {}));
}

} // namespace
} // namespace paceline::grammar::token_frames_test
