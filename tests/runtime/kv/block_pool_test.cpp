#include "runtime/kv/block_pool.hpp"

#include "runtime/base/check.hpp"

#include <gtest/gtest.h>

#include <random>

namespace paceline::kv {
namespace {

/// Ten blocks in slabs of four; the last slab has two.
class block_pool_test : public testing::Test {
 protected:
  std::vector<block_id> take(std::uint32_t num) {
    std::vector<block_id> blocks;
    blocks.reserve(num);
    EXPECT_TRUE(pool.allocate(num, blocks));
    return blocks;
  }
  void TearDown() override { EXPECT_TRUE(pool.check_invariants()); }

  block_pool pool{10, 4};
};

TEST_F(block_pool_test, blocks_come_and_go_in_slabs) {
  EXPECT_EQ(pool.count(block_state::absent), 10U);
  pool.add_slab();
  pool.add_slab();
  EXPECT_EQ(pool.next_slab_blocks(), 2U);
  pool.add_slab();
  EXPECT_EQ(pool.count(block_state::free), 10U);
  EXPECT_EQ(pool.next_slab_blocks(), 0U);
  EXPECT_EQ(pool.empty_slab_blocks(), 2U);
  pool.remove_empty_slab();
  EXPECT_EQ(pool.count(block_state::free), 8U);
}

TEST_F(block_pool_test, low_slabs_are_used_first_and_high_ones_returned_first) {
  pool.add_slab();
  pool.add_slab();
  const auto blocks = take(5);
  EXPECT_EQ(blocks, (std::vector{block_id{0}, block_id{1}, block_id{2}, block_id{3}, block_id{4}}));
  EXPECT_EQ(pool.empty_slab_blocks(), 0U);
  pool.remove_owner(block_id{4}, block_owner::table);
  EXPECT_EQ(pool.empty_slab_blocks(), 4U);
  pool.remove_empty_slab();
  EXPECT_EQ(pool.state_of(block_id{4}), block_state::absent);
}

TEST_F(block_pool_test, allocation_is_all_or_nothing) {
  pool.add_slab();
  std::vector<block_id> blocks;
  blocks.reserve(5);
  EXPECT_FALSE(pool.allocate(5, blocks));
  EXPECT_TRUE(blocks.empty());
  EXPECT_EQ(pool.count(block_state::free), 4U);
}

TEST_F(block_pool_test, a_block_is_free_with_its_last_owner_only) {
  pool.add_slab();
  const auto block = take(1).front();
  pool.add_owner(block, block_owner::table);
  pool.add_owner(block, block_owner::index);
  pool.add_owner(block, block_owner::release);
  EXPECT_EQ(pool.remove_owner(block, block_owner::table), block_state::active);
  EXPECT_EQ(pool.remove_owner(block, block_owner::table), block_state::deferred);
  EXPECT_EQ(pool.remove_owner(block, block_owner::release), block_state::cached);
  EXPECT_EQ(pool.remove_owner(block, block_owner::index), block_state::free);
}

TEST_F(block_pool_test, a_free_block_cannot_be_shared_and_no_owner_goes_twice) {
  pool.add_slab();
  EXPECT_THROW(pool.add_owner(block_id{0}, block_owner::table), check_failure);
  const auto block = take(1).front();
  pool.remove_owner(block, block_owner::table);
  EXPECT_THROW(pool.remove_owner(block, block_owner::table), check_failure);
  EXPECT_THROW(pool.state_of(block_id{10}), check_failure);
}

TEST(slab_set_test, agrees_with_a_plain_search_whatever_changes) {
  constexpr std::size_t size = 300;
  slab_set set(size);
  std::vector<bool> plain(size);
  std::mt19937 random(7);
  for (int step = 0; step < 20000; ++step) {
    // Long runs of removals empty the set now and then.
    const auto slab = random() % size;
    const bool member = step / 500 % 2 == 0;
    set.set(slab, member);
    plain[slab] = member;
    const auto first = std::ranges::find(plain, true);
    const auto last = std::ranges::find(plain.rbegin(), plain.rend(), true);
    const auto expected_first =
        first == plain.end() ? slab_set::none : static_cast<std::size_t>(first - plain.begin());
    const auto expected_last =
        last == plain.rend() ? slab_set::none : size - 1 - static_cast<std::size_t>(last - plain.rbegin());
    ASSERT_EQ(set.first(), expected_first) << step;
    ASSERT_EQ(set.last(), expected_last) << step;
  }
}

TEST(slab_set_test, first_and_last_cross_word_borders) {
  slab_set set(200);
  EXPECT_EQ(set.first(), slab_set::none);
  EXPECT_EQ(set.last(), slab_set::none);
  for (const std::size_t slab : {63U, 64U, 199U}) set.set(slab, true);
  EXPECT_EQ(set.first(), 63U);
  EXPECT_EQ(set.last(), 199U);
  set.set(63, false);
  set.set(199, false);
  EXPECT_EQ(set.first(), 64U);
  EXPECT_EQ(set.last(), 64U);
}

} // namespace
} // namespace paceline::kv
