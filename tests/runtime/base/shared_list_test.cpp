#include "runtime/base/shared_list.hpp"

#include <gtest/gtest.h>

#include <span>

namespace paceline {
namespace {

TEST(shared_list, copies_share_their_elements) {
  const shared_list<int> list{1, 2, 3};
  const auto copy = list;
  EXPECT_TRUE(copy.shares_with(list));
  EXPECT_EQ(copy.data(), list.data());
}

TEST(shared_list, who_edits_a_shared_one_edits_a_copy) {
  shared_list<int> list{1, 2};
  const auto copy = list;
  list.push_back(3);
  EXPECT_EQ(list, (std::vector{1, 2, 3}));
  EXPECT_EQ(copy, (std::vector{1, 2}));
  const auto* before = list.data();
  list.edit()[0] = 7; // not shared any more
  EXPECT_EQ(list.data(), before);
}

TEST(shared_list, an_empty_one_is_an_empty_range) {
  shared_list<int> list;
  EXPECT_TRUE(list.empty());
  EXPECT_EQ(list.begin(), list.end());
  EXPECT_EQ(std::span<const int>(list).size(), 0U);
  EXPECT_EQ(list, shared_list<int>(std::vector<int>{}));
  list.emplace_back(4);
  list.clear();
  EXPECT_TRUE(list.empty());
}

} // namespace
} // namespace paceline
