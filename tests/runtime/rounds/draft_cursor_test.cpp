#include "runtime/rounds/draft_cursor.hpp"

#include "tests/support/cycle_constraint.hpp"
#include "tests/support/metered_constraint.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

namespace paceline::rounds::draft_cursor_test {
namespace {

constexpr std::uint32_t vocab_size = 64;

/// Uses up the work of a cursor that allows masks for so many.
void use_up(constraint_cursor& cursor, int num_masks) {
  for (int i = 0; i < num_masks; ++i) EXPECT_NE(cursor.allowed({}, {})[0], 0U) << i;
  EXPECT_EQ(cursor.allowed({}, {})[0], 0U);
}

TEST(draft_cursor, rests_when_its_work_is_used_up_and_each_time_twice_as_long) {
  const auto num_exhausted = std::make_shared<std::atomic<int>>(0);
  const auto constraint = test::make_metered_constraint(test::make_cycle_constraint(vocab_size), vocab_size,
                                                        {.first = 3, .per_token = 0}, num_exhausted);
  draft_cursor drafts;
  EXPECT_EQ(drafts.at(nullptr, 0), nullptr);
  std::size_t length = 7;
  for (const std::size_t rest : {32U, 64U, 128U}) {
    auto* cursor = drafts.at(constraint.get(), length);
    use_up(*cursor, 3);
    for (std::size_t i = 0; i < rest; ++i)
      ASSERT_TRUE(drafts.at(constraint.get(), length + i)->is_exhausted()) << i;
    length += rest;
    EXPECT_FALSE(drafts.at(constraint.get(), length)->is_exhausted());
  }
  EXPECT_EQ(*num_exhausted, 3);
}

} // namespace
} // namespace paceline::rounds::draft_cursor_test
