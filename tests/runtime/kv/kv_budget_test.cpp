#include "runtime/kv/kv_budget.hpp"

#include "runtime/base/check.hpp"

#include <gtest/gtest.h>

namespace paceline::kv {
namespace {

TEST(kv_budget_test, a_minimum_is_nobody_elses) {
  kv_budget budget(100);
  const auto target = *budget.open(30);
  const auto drafter = *budget.open(20);
  EXPECT_TRUE(budget.lend(target, 80));
  EXPECT_FALSE(budget.lend(target, 1));
  EXPECT_TRUE(budget.lend(drafter, 20));
  EXPECT_FALSE(budget.lend(drafter, 1));
  EXPECT_TRUE(budget.check_invariants());
}

TEST(kv_budget_test, what_is_given_back_goes_to_whoever_asks) {
  kv_budget budget(100);
  const auto target = *budget.open(30);
  const auto drafter = *budget.open(20);
  ASSERT_TRUE(budget.lend(target, 80));
  budget.give_back(target, 60);
  EXPECT_EQ(budget.available_bytes(drafter), 70U);
  EXPECT_TRUE(budget.lend(drafter, 70));
  EXPECT_EQ(budget.available_bytes(target), 10U);
}

TEST(kv_budget_test, reach_is_what_all_others_can_do_without) {
  kv_budget budget(100);
  const auto target = *budget.open(30);
  const auto drafter = *budget.open(20);
  ASSERT_TRUE(budget.lend(drafter, 60));
  EXPECT_EQ(budget.reach_bytes(target), 80U);
  EXPECT_EQ(budget.reach_bytes(drafter), 70U);
}

TEST(kv_budget_test, minima_beyond_the_total_are_refused_with_both_numbers) {
  kv_budget budget(100);
  ASSERT_TRUE(budget.open(70));
  const auto refused = budget.open(31);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), errc::resource_exhausted);
  EXPECT_NE(refused.error().message().find("31"), std::string::npos);
  EXPECT_NE(refused.error().message().find("30"), std::string::npos);
}

TEST(kv_budget_test, giving_back_more_than_was_lent_is_a_programmer_error) {
  kv_budget budget(100);
  const auto account = *budget.open(0);
  ASSERT_TRUE(budget.lend(account, 10));
  EXPECT_THROW(budget.give_back(account, 11), check_failure);
}

} // namespace
} // namespace paceline::kv
