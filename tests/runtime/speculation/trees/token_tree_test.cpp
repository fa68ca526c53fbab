#include "runtime/speculation/trees/token_tree.hpp"

#include "runtime/base/check.hpp"

#include <gtest/gtest.h>

#include <random>

namespace paceline::speculation {
namespace {

TEST(token_tree, a_chain_is_the_degenerate_case) {
  token_tree tree;
  EXPECT_TRUE(tree.is_chain());
  EXPECT_TRUE(tree.is_leaf(token_tree::root));
  for (std::int32_t i = 0; i < 64; ++i) EXPECT_EQ(tree.add(token_id{i}, i - 1), i);
  EXPECT_TRUE(tree.is_chain());
  EXPECT_TRUE(tree.valid());
  EXPECT_EQ(tree.depths()[63], 63U);
  EXPECT_EQ(tree.ancestors()[63], ~std::uint64_t{0});
  EXPECT_TRUE(tree.is_leaf(63));
  EXPECT_FALSE(tree.is_leaf(62));
  EXPECT_THROW(tree.add(token_id{64}, 63), check_failure) << "64 nodes are the limit";
}

TEST(token_tree, siblings_end_a_chain_and_are_found_by_token) {
  token_tree tree;
  tree.add(token_id{10}, token_tree::root);
  tree.add(token_id{11}, token_tree::root);
  tree.add(token_id{12}, 1);
  tree.add(token_id{10}, 1);
  EXPECT_FALSE(tree.is_chain());
  EXPECT_EQ(tree.child(token_tree::root, token_id{11}), 1);
  EXPECT_EQ(tree.child(1, token_id{10}), 3);
  EXPECT_EQ(tree.child(0, token_id{12}), std::nullopt);
  EXPECT_EQ(tree.path_to(3), (std::vector<std::int32_t>{1, 3}));
  EXPECT_TRUE(tree.path_to(token_tree::root).empty());
  tree.truncate(2);
  EXPECT_EQ(tree.size(), 2U);
  EXPECT_TRUE(tree.valid());
  EXPECT_TRUE(tree.is_leaf(1));
  tree.clear();
  EXPECT_TRUE(tree.empty());
}

TEST(token_tree, ancestor_bits_are_the_path_for_every_shape) {
  std::mt19937 engine(8);
  SCOPED_TRACE("seed 8");
  for (int trial = 0; trial < 300; ++trial) {
    token_tree tree;
    const std::int32_t size = 1 + static_cast<std::int32_t>(engine() % 64);
    for (std::int32_t i = 0; i < size; ++i)
      tree.add(token_id{i}, static_cast<std::int32_t>(engine() % static_cast<std::uint32_t>(i + 1)) - 1);
    ASSERT_TRUE(tree.valid());
    for (std::int32_t i = 0; i < size; ++i) {
      std::uint64_t bits = 0;
      const auto path = tree.path_to(i);
      for (const std::int32_t node : path) bits |= std::uint64_t{1} << node;
      ASSERT_EQ(tree.ancestors()[static_cast<std::size_t>(i)], bits);
      ASSERT_EQ(tree.depths()[static_cast<std::size_t>(i)] + 1, path.size());
    }
  }
}

TEST(token_tree, a_parent_must_stand_before_its_child) {
  token_tree tree;
  EXPECT_THROW(tree.add(token_id{1}, 0), check_failure);
  EXPECT_THROW(tree.add(token_id{1}, -2), check_failure);
  EXPECT_TRUE(tree.empty());
}

} // namespace
} // namespace paceline::speculation
