#include "runtime/grammar/alternatives.hpp"

#include "runtime/grammar/token_frames.hpp"
#include "tests/support/cycle_constraint.hpp"

#include <gtest/gtest.h>

namespace paceline::grammar::alternatives_test {
namespace {

constexpr std::uint32_t vocab_size = 40;

std::vector<token_id> ids(std::initializer_list<int> values) { return {values.begin(), values.end()}; }

bool allows(constraint_cursor& cursor, const std::vector<token_id>& output, int token,
            const std::vector<token_id>& path = {}) {
  const token_id id{token};
  const auto mask = cursor.allowed(output, path);
  const bool allowed = (mask[static_cast<std::size_t>(token) / 32] >> token % 32 & 1U) != 0;
  EXPECT_EQ(cursor.num_allowed(output, path, {&id, 1}), allowed ? 1U : 0U) << token;
  return allowed;
}

/// Outputs of the cycle, either directly or after [30 31 32].
TEST(alternatives, allow_what_any_of_them_allows) {
  const auto cycle = test::make_cycle_constraint(vocab_size);
  const auto framed = any_frame({{ids({30, 31, 32}), cycle}}, vocab_size);
  const auto cursor = any_alternative({cycle, framed}, vocab_size)->begin();
  const auto plain = cycle->begin();
  EXPECT_FALSE(allows(*plain, {}, 30)) << "place 0 takes no multiple of 3";
  EXPECT_TRUE(allows(*cursor, {}, 30));
  EXPECT_TRUE(allows(*cursor, {}, 4));
  EXPECT_FALSE(allows(*cursor, {}, 3));
  EXPECT_TRUE(allows(*cursor, ids({30}), 31));
  EXPECT_FALSE(allows(*cursor, ids({30}), 4)) << "the other one is out";
  EXPECT_FALSE(allows(*cursor, ids({4}), 31, ids({30})));
  EXPECT_TRUE(allows(*cursor, {}, 32, ids({30, 31})));
  EXPECT_TRUE(allows(*cursor, {}, 4)) << "and back";
}

TEST(alternatives, force_only_where_one_is_left) {
  const auto cycle = test::make_cycle_constraint(vocab_size);
  const auto framed = any_frame({{ids({30, 31, 32}), cycle}}, vocab_size);
  const auto cursor = any_alternative({cycle, framed}, vocab_size)->begin();
  std::vector<token_id> forced;
  cursor->append_forced({}, 4, forced);
  EXPECT_TRUE(forced.empty());
  cursor->append_forced(ids({30}), 4, forced);
  EXPECT_EQ(forced, ids({31, 32}));
}

} // namespace
} // namespace paceline::grammar::alternatives_test
