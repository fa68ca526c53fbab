#include "runtime/kv/prefix_index.hpp"

#include "runtime/base/check.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace paceline::kv {
namespace {

using node_ref = prefix_index::node_ref;

std::vector<token_id> pair(std::int32_t a, std::int32_t b) { return {token_id{a}, token_id{b}}; }

/// Blocks of two tokens, all with the same hash, so that only their content distinguishes them.
class prefix_index_test : public testing::Test {
 protected:
  node_ref add(node_ref parent, const std::vector<token_id>& tokens, std::uint32_t block,
               std::string_view tenant = "") {
    return index.insert(parent, std::make_shared<const std::string>(tenant), 0, tokens, block_id{block});
  }
  void TearDown() override { EXPECT_TRUE(index.check_invariants()); }

  prefix_index index{8, 2, [](const block_content&) { return hash128{}; }};
};

TEST_F(prefix_index_test, equal_hashes_never_mix_contents) {
  const auto root = add({}, pair(1, 2), 0);
  const auto child = add(root, pair(3, 4), 1);
  EXPECT_EQ(index.find({}, "", 0, pair(1, 2)), root);
  EXPECT_EQ(index.find(root, "", 0, pair(3, 4)), child);
  EXPECT_FALSE(index.find({}, "", 0, pair(3, 4)));
  EXPECT_FALSE(index.find(root, "", 0, pair(1, 2)));
  EXPECT_FALSE(index.find({}, "", 1, pair(1, 2)));
}

TEST_F(prefix_index_test, tenants_with_equal_hashes_share_nothing) {
  const auto alice = add({}, pair(1, 2), 0, "alice");
  EXPECT_FALSE(index.find({}, "bob", 0, pair(1, 2)));
  const auto bob = add({}, pair(1, 2), 1, "bob");
  EXPECT_EQ(index.find({}, "alice", 0, pair(1, 2)), alice);
  EXPECT_EQ(index.find({}, "bob", 0, pair(1, 2)), bob);
}

TEST_F(prefix_index_test, the_least_recently_used_leaf_goes_first) {
  const auto root = add({}, pair(1, 2), 0);
  add(root, pair(3, 4), 1);
  add({}, pair(5, 6), 2);
  for (const std::uint32_t block : {0, 1, 2}) index.set_idle(block_id{block}, true);
  EXPECT_EQ(index.evict(), block_id{1}); // block 0 is older, but has a child
  EXPECT_EQ(index.evict(), block_id{0});
  EXPECT_EQ(index.evict(), block_id{2});
  EXPECT_EQ(index.evict(), std::nullopt);
}

TEST_F(prefix_index_test, blocks_in_use_are_not_evicted) {
  add({}, pair(1, 2), 0);
  EXPECT_EQ(index.evict(), std::nullopt);
  index.set_idle(block_id{0}, true);
  index.set_idle(block_id{0}, false);
  EXPECT_EQ(index.evict(), std::nullopt);
}

TEST_F(prefix_index_test, leaves_in_use_give_way_for_the_idle_block_above_them) {
  const auto root = add({}, pair(1, 2), 0);
  const auto left = add(root, pair(3, 4), 1);
  add(root, pair(5, 6), 2);
  add(left, pair(7, 8), 3);
  index.set_idle(block_id{0}, true); // its content exists twice: the user of blocks 1 to 3 has its own copy
  std::vector<block_id> order;
  while (const auto block = index.evict()) order.push_back(*block);
  ASSERT_EQ(order.size(), 4U);
  EXPECT_EQ(order.back(), block_id{0});
  EXPECT_LT(std::ranges::find(order, block_id{3}), std::ranges::find(order, block_id{1}));
  EXPECT_EQ(index.num_nodes(), 0U);
}

TEST_F(prefix_index_test, an_idle_leaf_goes_before_leaves_in_use) {
  const auto root = add({}, pair(1, 2), 0);
  add(root, pair(3, 4), 1);
  add({}, pair(5, 6), 2);
  index.set_idle(block_id{0}, true);
  index.set_idle(block_id{2}, true);
  EXPECT_EQ(index.evict(), block_id{2});
  EXPECT_EQ(index.evict(), block_id{1});
  EXPECT_EQ(index.evict(), block_id{0});
}

TEST_F(prefix_index_test, a_reference_to_an_evicted_node_is_recognised) {
  const auto gone = add({}, pair(1, 2), 0);
  index.set_idle(block_id{0}, true);
  ASSERT_EQ(index.evict(), block_id{0});
  add({}, pair(1, 2), 0);
  EXPECT_FALSE(index.contains(gone));
  EXPECT_FALSE(index.find(gone, "", 0, pair(3, 4)));
  EXPECT_THROW(add(gone, pair(3, 4), 1), check_failure);
}

TEST(block_hash_test, hashes_depend_on_every_part_of_the_content_and_on_the_secret) {
  const auto hash = make_block_hasher();
  const auto tokens = pair(1, 2);
  const auto other_tokens = pair(2, 1);
  const auto plain = hash({{}, "", 0, tokens});
  EXPECT_EQ(plain, hash({{}, "", 0, tokens}));
  EXPECT_NE(plain, hash({{1, 0}, "", 0, tokens}));
  EXPECT_NE(plain, hash({{0, 1}, "", 0, tokens}));
  EXPECT_NE(plain, hash({{}, "a", 0, tokens}));
  EXPECT_NE(plain, hash({{}, "", 1, tokens}));
  EXPECT_NE(plain, hash({{}, "", 0, other_tokens}));
  EXPECT_NE(plain, make_block_hasher()({{}, "", 0, tokens}));
}

} // namespace
} // namespace paceline::kv
