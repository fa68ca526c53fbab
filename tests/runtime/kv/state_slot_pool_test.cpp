// State slots: who owns them, by which snapshots a prefix is found, and which of them are evicted for whom.
#include "runtime/kv/pool_manager.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace paceline::kv {
namespace {

std::vector<token_id> text(std::uint32_t length, std::int32_t first = 1) {
  std::vector<token_id> tokens;
  for (std::uint32_t i = 0; i < length; ++i) tokens.emplace_back(first + static_cast<std::int32_t>(i));
  return tokens;
}

class state_slots_of_a_pool : public ::testing::Test {
 protected:
  state_slots_of_a_pool() : manager_(std::uint64_t{1} << 30) {
    pool_config config;
    config.name = "target";
    config.num_blocks = 64;
    config.block_size = 4;
    config.block_bytes = 100;
    config.slab_blocks = 1;
    config.num_state_slots = 8;
    pool_ = manager_.add_pool(config).value();
  }
  ~state_slots_of_a_pool() override { check(); }

  expected<new_lease> acquire(std::uint64_t request, const std::vector<token_id>& tokens, std::uint32_t least,
                              std::uint32_t most) {
    acquire_options options;
    options.tokens = tokens;
    options.num_prompt_tokens = static_cast<std::uint32_t>(tokens.size());
    options.reserve_length = static_cast<std::uint32_t>(tokens.size()) + 2;
    options.min_state_slots = least;
    options.max_state_slots = most;
    auto made = manager_.acquire(pool_, request_id{request}, options);
    check();
    return made;
  }
  void check() {
    const auto broken = manager_.check_invariants();
    EXPECT_TRUE(broken) << broken.error().message();
  }
  const state_slot_pool& slots() const { return *manager_.state_slots(pool_); }

  pool_manager manager_;
  pool_id pool_;
};

TEST_F(state_slots_of_a_pool, a_request_gets_as_many_as_there_are_and_no_fewer_than_its_least) {
  const auto first = acquire(1, text(5), 2, 6);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->states.slots.size(), 6U);
  EXPECT_FALSE(first->states.initial);
  EXPECT_EQ(slots().num_held(), 6U);
  const auto second = acquire(2, text(5), 2, 6);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->states.slots.size(), 2U);
  for (const auto slot : second->states.slots)
    EXPECT_EQ(std::ranges::count(first->states.slots, slot), 0) << to_string(slot);
  const auto third = acquire(3, text(5), 1, 6);
  ASSERT_FALSE(third);
  EXPECT_EQ(third.error().code(), errc::state_slots_full);
  EXPECT_NE(third.error().message().find("1 state slots wanted, 0 free, 0 cached, 8 held"), std::string::npos)
      << third.error().message();
  const auto never = acquire(4, text(5), 9, 9);
  ASSERT_FALSE(never);
  EXPECT_EQ(never.error().code(), errc::resource_exhausted);
  EXPECT_TRUE(manager_.release(first->lease.key, {}));
  EXPECT_EQ(slots().num_free(), 6U);
  EXPECT_TRUE(manager_.release(second->lease.key, {}));
}

TEST_F(state_slots_of_a_pool, slots_are_free_only_after_the_stream_point_of_their_release) {
  const auto lease = acquire(1, text(5), 8, 8);
  ASSERT_TRUE(lease);
  EXPECT_TRUE(manager_.release(lease->lease.key, {stream_id{3}, 7}));
  EXPECT_EQ(slots().num_free(), 0U);
  EXPECT_FALSE(acquire(2, text(5), 1, 1));
  manager_.on_watermark(stream_id{3}, 7);
  EXPECT_EQ(slots().num_free(), 8U);
}

TEST_F(state_slots_of_a_pool, a_prefix_is_found_up_to_its_last_snapshot_only) {
  const auto tokens = text(14);
  const auto first = acquire(1, tokens, 2, 3);
  ASSERT_TRUE(first);
  const auto kept = first->states.slots[1];
  ASSERT_TRUE(manager_.commit(first->lease.key, {}, 14, std::vector{state_snapshot{8, kept}}));
  EXPECT_EQ(slots().num_snapshots(), 1U);
  // Three blocks are in the index. The state after the second one is known.
  const auto second = acquire(2, tokens, 2, 2);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->lease.length, 8U);
  EXPECT_EQ(second->states.initial, kept);
  EXPECT_TRUE(second->copies.empty()) << "after part of a block no state is known";
  // A text that differs within the second block shares nothing.
  auto other = text(14);
  other[6] = token_id{99};
  const auto third = acquire(3, other, 2, 2);
  ASSERT_TRUE(third);
  EXPECT_EQ(third->lease.length, 0U);
  EXPECT_FALSE(third->states.initial);
  for (const auto& lease : {*first, *second, *third}) EXPECT_TRUE(manager_.release(lease.lease.key, {}));
  EXPECT_EQ(slots().num_idle(), 1U);
}

TEST_F(state_slots_of_a_pool, a_request_learns_how_much_is_cached_without_a_state) {
  const auto first = acquire(1, text(14), 2, 2);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->states.cached_without_state, 0U);
  ASSERT_TRUE(
      manager_.commit(first->lease.key, {}, 14, std::vector{state_snapshot{4, first->states.slots[0]}}));
  ASSERT_TRUE(manager_.release(first->lease.key, {}));
  auto other = text(14);
  other[9] = token_id{99};
  const auto second = acquire(2, other, 2, 2);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->lease.length, 4U) << "up to the snapshot";
  EXPECT_EQ(second->states.cached_without_state, 8U);
  ASSERT_TRUE(
      manager_.commit(second->lease.key, {}, 14, std::vector{state_snapshot{8, second->states.slots[0]}}));
  ASSERT_TRUE(manager_.release(second->lease.key, {}));
  other[9] = token_id{98};
  const auto third = acquire(3, other, 2, 2);
  ASSERT_TRUE(third);
  EXPECT_EQ(third->lease.length, 8U);
  EXPECT_EQ(third->states.cached_without_state, 0U);
  EXPECT_TRUE(manager_.release(third->lease.key, {}));
}

TEST_F(state_slots_of_a_pool, the_last_token_is_always_computed) {
  const auto tokens = text(8);
  const auto first = acquire(1, tokens, 2, 4);
  ASSERT_TRUE(first);
  const auto& slots = first->states.slots;
  ASSERT_TRUE(manager_.commit(first->lease.key, {}, 8,
                              std::vector{state_snapshot{4, slots[1]}, state_snapshot{8, slots[2]}}));
  const auto second = acquire(2, tokens, 2, 2);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->lease.length, 4U);
  EXPECT_EQ(second->states.initial, slots[1]);
}

TEST_F(state_slots_of_a_pool, idle_snapshots_are_evicted_the_least_recently_used_first) {
  std::vector<state_slot> kept;
  for (std::uint64_t i = 0; i < 3; ++i) {
    const auto lease = acquire(i, text(6, static_cast<std::int32_t>(100 * i + 1)), 2, 2);
    ASSERT_TRUE(lease);
    kept.push_back(lease->states.slots[0]);
    ASSERT_TRUE(manager_.commit(lease->lease.key, {}, 5, std::vector{state_snapshot{4, kept.back()}}));
    ASSERT_TRUE(manager_.release(lease->lease.key, {}));
  }
  EXPECT_EQ(slots().num_idle(), 3U);
  // The first one is used, so the second one is the oldest.
  const auto user = acquire(10, text(6, 1), 1, 1);
  ASSERT_TRUE(user);
  EXPECT_EQ(user->states.initial, kept[0]);
  ASSERT_TRUE(manager_.release(user->lease.key, {}));
  const auto hungry = acquire(11, text(6, 901), 6, 6); // five are free
  ASSERT_TRUE(hungry);
  EXPECT_EQ(std::ranges::count(hungry->states.slots, kept[1]), 1);
  EXPECT_EQ(slots().num_idle(), 2U);
  EXPECT_EQ(acquire(12, text(6, 101), 0, 0)->lease.length, 0U) << "its snapshot was evicted";
}

TEST_F(state_slots_of_a_pool, slots_for_snapshots_replace_at_most_two_older_ones) {
  for (std::uint64_t i = 0; i < 3; ++i) {
    const auto lease = acquire(i, text(6, static_cast<std::int32_t>(100 * i + 1)), 2, 2);
    ASSERT_TRUE(lease);
    ASSERT_TRUE(
        manager_.commit(lease->lease.key, {}, 5, std::vector{state_snapshot{4, lease->states.slots[0]}}));
    ASSERT_TRUE(manager_.release(lease->lease.key, {}));
  }
  const auto tokens = text(6, 901);
  acquire_options options;
  options.tokens = tokens;
  options.num_prompt_tokens = 6;
  options.reserve_length = 8;
  options.min_state_slots = 2;
  options.max_state_slots = 4;
  options.num_snapshot_slots = 8;
  const auto first = manager_.acquire(pool_, request_id{10}, options); // five are free
  ASSERT_TRUE(first);
  EXPECT_EQ(first->states.slots.size(), 4U + 2);
  EXPECT_EQ(slots().num_idle(), 2U);
}

TEST_F(state_slots_of_a_pool, a_request_that_gets_no_blocks_evicts_no_snapshot) {
  const auto first = acquire(1, text(6), 2, 2);
  ASSERT_TRUE(first);
  ASSERT_TRUE(
      manager_.commit(first->lease.key, {}, 5, std::vector{state_snapshot{4, first->states.slots[0]}}));
  ASSERT_TRUE(manager_.release(first->lease.key, {}));
  const auto holder = acquire(2, text(6, 50), 5, 5);
  ASSERT_TRUE(holder);
  const auto tokens = text(6, 70);
  acquire_options options;
  options.tokens = tokens;
  options.num_prompt_tokens = 6;
  options.reserve_length = 63 * 4; // more blocks than are free
  options.min_state_slots = options.max_state_slots = 3;
  EXPECT_FALSE(manager_.acquire(pool_, request_id{3}, options));
  EXPECT_EQ(slots().num_snapshots(), 1U);
}

TEST_F(state_slots_of_a_pool, a_snapshot_in_use_is_not_evicted) {
  const auto first = acquire(1, text(6), 2, 2);
  ASSERT_TRUE(first);
  const auto kept = first->states.slots[0];
  ASSERT_TRUE(manager_.commit(first->lease.key, {}, 5, std::vector{state_snapshot{4, kept}}));
  ASSERT_TRUE(manager_.release(first->lease.key, {}));
  const auto reader = acquire(2, text(6), 1, 1);
  ASSERT_TRUE(reader);
  ASSERT_EQ(reader->states.initial, kept);
  EXPECT_FALSE(acquire(3, text(6, 50), 7, 7)) << "six are free";
  const auto rest = acquire(4, text(6, 50), 6, 6);
  ASSERT_TRUE(rest);
  EXPECT_EQ(std::ranges::count(rest->states.slots, kept), 0);
}

TEST_F(state_slots_of_a_pool, a_request_gives_its_first_state_back_when_it_has_one_of_its_own) {
  const auto first = acquire(1, text(6), 2, 2);
  ASSERT_TRUE(first);
  ASSERT_TRUE(
      manager_.commit(first->lease.key, {}, 5, std::vector{state_snapshot{4, first->states.slots[0]}}));
  ASSERT_TRUE(manager_.release(first->lease.key, {}));
  const auto reader = acquire(2, text(6), 2, 2);
  ASSERT_TRUE(reader);
  ASSERT_TRUE(reader->states.initial);
  EXPECT_EQ(slots().num_held(), 3U);
  ASSERT_TRUE(manager_.commit(reader->lease.key, {}, 4, {}));
  EXPECT_EQ(slots().num_held(), 3U) << "nothing is final that was not found";
  ASSERT_TRUE(manager_.commit(reader->lease.key, {}, 5, {}));
  EXPECT_EQ(slots().num_held(), 2U);
  EXPECT_EQ(slots().num_idle(), 1U) << "the prefix is still found";
  EXPECT_TRUE(manager_.release(reader->lease.key, {}));
}

TEST_F(state_slots_of_a_pool, a_request_for_which_a_cached_prefix_leaves_no_slot_begins_without_it) {
  const auto first = acquire(1, text(6), 2, 2);
  ASSERT_TRUE(first);
  const auto kept = first->states.slots[0];
  ASSERT_TRUE(manager_.commit(first->lease.key, {}, 5, std::vector{state_snapshot{4, kept}}));
  ASSERT_TRUE(manager_.release(first->lease.key, {}));
  const auto others = acquire(2, text(6, 50), 6, 6);
  ASSERT_TRUE(others);
  const auto second = acquire(3, text(6), 2, 2);
  ASSERT_TRUE(second) << second.error().message();
  EXPECT_FALSE(second->states.initial);
  EXPECT_EQ(second->lease.length, 0U);
  EXPECT_EQ(slots().num_snapshots(), 0U) << "its slot is one of the two";
  const auto third = acquire(4, text(6), 1, 1);
  EXPECT_FALSE(third);
  EXPECT_TRUE(manager_.release(second->lease.key, {}));
  EXPECT_TRUE(manager_.release(others->lease.key, {}));
}

TEST_F(state_slots_of_a_pool, a_second_snapshot_of_the_same_prefix_stays_with_its_request) {
  const auto first = acquire(1, text(6), 2, 2), second = acquire(2, text(6), 2, 2);
  ASSERT_TRUE(first && second);
  ASSERT_TRUE(
      manager_.commit(first->lease.key, {}, 5, std::vector{state_snapshot{4, first->states.slots[0]}}));
  ASSERT_TRUE(
      manager_.commit(second->lease.key, {}, 5, std::vector{state_snapshot{4, second->states.slots[0]}}));
  EXPECT_EQ(slots().num_snapshots(), 1U);
  ASSERT_TRUE(manager_.release(second->lease.key, {}));
  EXPECT_EQ(slots().num_free(), 6U);
}

TEST_F(state_slots_of_a_pool, snapshots_of_unfinished_blocks_and_foreign_slots_are_refused) {
  const auto lease = acquire(1, text(9), 2, 2), other = acquire(2, text(9, 30), 2, 2);
  ASSERT_TRUE(lease && other);
  const auto own = lease->states.slots[0];
  for (const auto& wrong : {state_snapshot{6, own}, state_snapshot{8, own}, state_snapshot{0, own},
                            state_snapshot{4, other->states.slots[0]}}) {
    const auto done = manager_.commit(lease->lease.key, {}, 7, std::vector{wrong});
    ASSERT_FALSE(done) << wrong.length;
    EXPECT_EQ(done.error().code(), errc::invalid_argument);
  }
  EXPECT_TRUE(manager_.commit(lease->lease.key, {}, 8, std::vector{state_snapshot{8, own}}));
}

TEST_F(state_slots_of_a_pool, an_evicted_block_takes_its_snapshot_along) {
  const auto first = acquire(1, text(6), 2, 2);
  ASSERT_TRUE(first);
  ASSERT_TRUE(
      manager_.commit(first->lease.key, {}, 5, std::vector{state_snapshot{4, first->states.slots[0]}}));
  ASSERT_TRUE(manager_.release(first->lease.key, {}));
  ASSERT_EQ(slots().num_snapshots(), 1U);
  acquire_options all;
  const auto tokens = text(250, 1000);
  all.tokens = tokens;
  all.num_prompt_tokens = 250;
  all.reserve_length = 256; // every block
  ASSERT_TRUE(manager_.acquire(pool_, request_id{2}, all));
  EXPECT_EQ(slots().num_snapshots(), 0U);
  EXPECT_EQ(slots().num_free(), 8U);
}

} // namespace
} // namespace paceline::kv
