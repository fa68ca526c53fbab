#include "runtime/speculation/drafters/model_session.hpp"

#include "runtime/base/check.hpp"

#include <gtest/gtest.h>

namespace paceline::speculation::model_session_test {
namespace {

std::vector<token_id> tokens(std::vector<std::int32_t> ids) {
  std::vector<token_id> made;
  for (const std::int32_t id : ids) made.push_back(token_id{id});
  return made;
}

constexpr std::uint32_t block_size = 4;
const std::vector<block_id> blocks{block_id{7}, block_id{3}, block_id{5}, block_id{1}};

/// Five cells of context 0..4, and a tree: 10 and 20 below the root, 11 and 12 below 10, 21 below 20.
model_session with_tree() {
  model_session session;
  for (std::int32_t i = 0; i < 5; ++i) session.feed(token_id{i});
  session.feed_branch(token_id{10}, token_tree::root);
  session.feed_branch(token_id{20}, token_tree::root);
  session.feed_branch(token_id{11}, 0);
  session.feed_branch(token_id{12}, 0);
  session.feed_branch(token_id{21}, 1);
  return session;
}

TEST(model_session, paths_are_slots_and_none_where_slots_are_positions) {
  const model_session session = with_tree();
  EXPECT_EQ(session.next_slot(), kv_slot{10});
  EXPECT_TRUE(session.path_to(0).empty());
  EXPECT_EQ(session.path_to(1), (std::vector<kv_slot>{kv_slot{6}}));
  EXPECT_EQ(session.path_to(2), (std::vector<kv_slot>{kv_slot{5}, kv_slot{7}}));
  EXPECT_EQ(session.path_to(4), (std::vector<kv_slot>{kv_slot{6}, kv_slot{9}}));
}

TEST(model_session, cells_that_are_there_already_count_as_far_as_the_context_has_their_tokens) {
  model_session session;
  session.take_over(tokens({0, 1, 2}));
  EXPECT_EQ(session.num_cells().committed, 3U);
  EXPECT_TRUE(session.settle(tokens({0, 1, 2, 3}), blocks, block_size).empty());
  EXPECT_EQ(session.next_slot(), kv_slot{3});
  session.feed(token_id{3});
  EXPECT_THROW(session.take_over(tokens({0})), check_failure);
  session.doubt_beyond(1);
  session.settle(tokens({0, 5}), blocks, block_size);
  EXPECT_EQ(session.next_slot(), kv_slot{1});
}

TEST(model_session, the_committed_branch_moves_to_its_place_in_order) {
  model_session session = with_tree();
  const auto moves = session.settle(tokens({0, 1, 2, 3, 4, 20, 21, 9}), blocks, block_size);
  ASSERT_EQ(moves.size(), 2U);
  EXPECT_EQ(moves[0].from_block, block_id{3}); // slot 6
  EXPECT_EQ(moves[0].from_offset, 2U);
  EXPECT_EQ(moves[0].to_block, block_id{3}); // slot 5
  EXPECT_EQ(moves[0].to_offset, 1U);
  EXPECT_EQ(moves[0].num_cells, 1U);
  EXPECT_EQ(moves[1].from_block, block_id{5}); // slot 9
  EXPECT_EQ(moves[1].from_offset, 1U);
  EXPECT_EQ(moves[1].to_block, block_id{3}); // slot 6
  EXPECT_EQ(moves[1].to_offset, 2U);
  EXPECT_EQ(session.cached().size(), 7U);
  EXPECT_EQ(session.num_branches(), 0U);
}

TEST(model_session, a_branch_in_its_place_is_not_moved) {
  model_session session = with_tree();
  EXPECT_TRUE(session.settle(tokens({0, 1, 2, 3, 4, 10}), blocks, block_size).empty());
  EXPECT_EQ(session.cached().size(), 6U);
}

TEST(model_session, a_context_that_took_another_way_keeps_what_both_have) {
  model_session session = with_tree();
  EXPECT_TRUE(session.settle(tokens({0, 1, 2, 3, 4, 30}), blocks, block_size).empty());
  EXPECT_EQ(session.cached().size(), 5U);
  session = with_tree();
  EXPECT_TRUE(session.settle(tokens({0, 1, 9, 3, 4, 10}), blocks, block_size).empty());
  EXPECT_EQ(session.cached().size(), 2U);
  EXPECT_EQ(session.num_branches(), 0U) << "they grew from tokens that are gone";
  session = with_tree();
  EXPECT_TRUE(session.settle(tokens({0, 1, 2}), blocks, block_size).empty());
  EXPECT_EQ(session.cached().size(), 3U);
}

TEST(model_session, context_is_never_fed_behind_branches) {
  model_session session = with_tree();
  EXPECT_THROW(session.feed(token_id{1}), check_failure);
  EXPECT_THROW(session.feed_branch(token_id{1}, 5), check_failure);
  session.keep_branches(0);
  session.feed(token_id{1});
  EXPECT_EQ(session.cached().size(), 6U);
}

} // namespace
} // namespace paceline::speculation::model_session_test
