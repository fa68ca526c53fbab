#include "runtime/kv/pool_manager.hpp"

#include <gtest/gtest.h>

#include <numeric>

namespace paceline::kv {
namespace {

constexpr stream_id target{1};

std::vector<token_id> tokens(std::int32_t first, std::uint32_t num) {
  std::vector<token_id> out;
  for (std::uint32_t i = 0; i < num; ++i) out.push_back(token_id{first + static_cast<std::int32_t>(i)});
  return out;
}

pool_config small_pool(std::uint32_t num_blocks, std::uint32_t block_size = 4) {
  return {.name = "target",
          .num_blocks = num_blocks,
          .block_size = block_size,
          .block_bytes = 100,
          .slab_blocks = 1,
          .min_blocks = num_blocks};
}

/// One pool of eight blocks of four cells, with memory for all of them.
class pool_manager_test : public testing::Test {
 protected:
  lease start(std::uint64_t request, const std::vector<token_id>& prompt, std::uint32_t reserve = 0,
              std::string_view salt = {}) {
    auto answer = manager.acquire(pool, request_id{request},
                                  {prompt, static_cast<std::uint32_t>(prompt.size()), salt, reserve});
    EXPECT_TRUE(answer.has_value()) << answer.error().message();
    copies = answer->copies;
    return answer->lease;
  }
  std::vector<block_id> blocks_of(const lease& l) { return manager.reserve(l.key, 0)->blocks; }
  void TearDown() override {
    const auto ok = manager.check_invariants();
    EXPECT_TRUE(ok.has_value()) << ok.error().message();
  }

  pool_manager manager{800};
  pool_id pool = *manager.add_pool(small_pool(8));
  std::vector<device::kv_copy> copies;
};

TEST_F(pool_manager_test, acquire_reserves_blocks_for_the_length_asked) {
  const auto l = start(1, tokens(10, 6), 9);
  EXPECT_EQ(l.blocks.size(), 3U);
  EXPECT_EQ(l.capacity, 12U);
  EXPECT_EQ(l.length, 0U);
  EXPECT_EQ(manager.usage(pool).num_active, 3U);
}

TEST_F(pool_manager_test, reserve_appends_blocks_and_keeps_those_leased) {
  const auto before = start(1, tokens(10, 6), 6);
  const auto after = manager.reserve(before.key, 13);
  ASSERT_TRUE(after);
  ASSERT_EQ(after->blocks.size(), 4U);
  EXPECT_TRUE(std::equal(before.blocks.begin(), before.blocks.end(), after->blocks.begin()));
}

TEST_F(pool_manager_test, exhaustion_is_an_ordinary_answer_that_changes_nothing) {
  const auto a = start(1, tokens(10, 6), 20);
  const auto b = start(2, tokens(50, 6), 8);
  const auto full = manager.reserve(b.key, 20);
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().code(), errc::pool_full);
  EXPECT_EQ(blocks_of(b), b.blocks);
  EXPECT_EQ(manager.usage(pool).num_free, 1U);
  EXPECT_EQ(manager.counters(pool).num_pool_full, 1U);
  EXPECT_EQ(blocks_of(a), a.blocks);
}

TEST_F(pool_manager_test, a_request_that_can_never_fit_is_told_so) {
  const auto l = start(1, tokens(10, 6));
  const auto never = manager.reserve(l.key, 33);
  ASSERT_FALSE(never);
  EXPECT_EQ(never.error().code(), errc::resource_exhausted);
}

TEST_F(pool_manager_test, rollback_returns_blocks_of_rejected_tokens) {
  const auto l = start(1, tokens(10, 6), 16);
  ASSERT_TRUE(manager.commit(l.key, {}, 6));
  ASSERT_TRUE(manager.rollback(l.key, 7, {}));
  EXPECT_EQ(blocks_of(l).size(), 2U);
  EXPECT_EQ(manager.usage(pool).num_free, 6U);
  EXPECT_EQ(manager.counters(pool).num_rolled_back_blocks, 2U);
}

TEST_F(pool_manager_test, final_slots_cannot_be_rolled_back) {
  const auto l = start(1, tokens(10, 6), 16);
  ASSERT_TRUE(manager.commit(l.key, {}, 6));
  const auto bad = manager.rollback(l.key, 5, {});
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().code(), errc::invalid_argument);
}

TEST_F(pool_manager_test, released_blocks_wait_for_their_stream) {
  const auto l = start(1, tokens(10, 6), 32);
  ASSERT_TRUE(manager.release(l.key, {target, 5}));
  EXPECT_EQ(manager.usage(pool).num_deferred, 8U);
  manager.on_watermark(target, 4);
  EXPECT_EQ(manager.usage(pool).num_free, 0U);
  const auto early = manager.acquire(pool, request_id{2}, {tokens(50, 2), 2, {}, 2});
  ASSERT_FALSE(early);
  EXPECT_EQ(early.error().code(), errc::pool_full);
  manager.on_watermark(target, 5);
  EXPECT_EQ(manager.usage(pool).num_free, 8U);
}

/// Requests ask again whenever blocks have become free.
TEST(pool_manager, a_full_pool_refuses_without_looking_for_a_prefix) {
  std::uint32_t num_hashed = 0;
  pool_manager manager(800, [&, hash = make_block_hasher()](const block_content& content) {
    ++num_hashed;
    return hash(content);
  });
  const auto pool = *manager.add_pool(small_pool(8));
  const auto prompt = tokens(10, 9);
  const auto first = manager.acquire(pool, request_id{1}, {prompt, 9, {}, 28});
  ASSERT_TRUE(first && manager.commit(first->lease.key, {}, 9));
  const auto hashed_for = [&](std::uint32_t num_slots, bool granted, bool use_cache = true) {
    num_hashed = 0;
    const auto answer = manager.acquire(pool, request_id{2}, {prompt, 9, {}, num_slots, use_cache});
    EXPECT_EQ(answer.has_value(), granted);
    EXPECT_TRUE(!answer || manager.release(answer->lease.key, {}));
    return num_hashed;
  };
  EXPECT_EQ(hashed_for(16, false), 0U) << "two blocks of four, if it shares two; one is left";
  EXPECT_EQ(hashed_for(12, true), 2U) << "it shares two";
  EXPECT_EQ(hashed_for(4, true, false), 0U) << "nor does a request that shares nothing look for it";
  EXPECT_EQ(hashed_for(40, false), 0U) << "it can never fit";
}

TEST_F(pool_manager_test, committed_prefix_is_shared_but_never_its_last_token) {
  const auto prompt = tokens(10, 8);
  const auto a = start(1, prompt, 8);
  ASSERT_TRUE(manager.commit(a.key, {}, 8));
  const auto b = start(2, prompt, 8);
  EXPECT_EQ(b.length, 7U);
  EXPECT_EQ(b.blocks[0], a.blocks[0]);
  EXPECT_NE(b.blocks[1], a.blocks[1]);
  ASSERT_EQ(copies.size(), 1U);
  EXPECT_EQ(copies[0].from_block, a.blocks[1]);
  EXPECT_EQ(copies[0].to_block, b.blocks[1]);
  EXPECT_EQ(copies[0].num_cells, 3U);
}

TEST_F(pool_manager_test, another_salt_shares_nothing) {
  const auto prompt = tokens(10, 8);
  const auto a = start(1, prompt, 8, "alice");
  ASSERT_TRUE(manager.commit(a.key, {}, 8));
  EXPECT_EQ(start(2, prompt, 8, "bob").length, 0U);
  EXPECT_EQ(start(3, prompt, 8, "alice").length, 7U);
}

TEST_F(pool_manager_test, commands_of_an_earlier_epoch_change_nothing) {
  const auto old = start(1, tokens(10, 6), 16);
  ASSERT_TRUE(manager.release(old.key, {}));
  const auto now = start(1, tokens(10, 6), 16); // the same request, resumed
  EXPECT_EQ(manager.reserve(old.key, 32).error().code(), errc::stale);
  EXPECT_EQ(manager.commit(old.key, {}, 6).error().code(), errc::stale);
  EXPECT_EQ(manager.rollback(old.key, 6, {}).error().code(), errc::stale);
  EXPECT_EQ(manager.release(old.key, {}).error().code(), errc::stale);
  EXPECT_EQ(manager.counters(pool).num_stale_commands, 4U);
  EXPECT_EQ(blocks_of(now), now.blocks);
  EXPECT_EQ(manager.usage(pool).num_active, 4U);
  EXPECT_TRUE(manager.release(now.key, {}));
}

TEST_F(pool_manager_test, the_source_of_a_copy_stays_until_the_copy_is_proven_done) {
  const auto a = start(1, tokens(10, 8), 8);
  ASSERT_TRUE(manager.commit(a.key, {}, 8));
  const auto b = start(2, tokens(10, 8), 8);
  ASSERT_EQ(copies.size(), 1U);
  ASSERT_TRUE(manager.release(a.key, {}));
  EXPECT_EQ(manager.usage(pool).num_active, 3U);
  ASSERT_TRUE(manager.commit(b.key, tokens(18, 1), 7));
  EXPECT_EQ(manager.usage(pool).num_active, 3U);
  ASSERT_TRUE(manager.commit(b.key, tokens(19, 1), 8));
  EXPECT_EQ(manager.usage(pool).num_active, 2U);
}

TEST_F(pool_manager_test, drafts_never_reach_the_prefix_cache) {
  const auto a = start(1, tokens(10, 6), 16);
  ASSERT_TRUE(manager.commit(a.key, {}, 6));
  // Eight slots hold computed cells, but there are only six committed tokens, so the second block is not
  // full.
  const auto b = start(2, tokens(10, 9), 12);
  EXPECT_EQ(b.length, 4U);
}

TEST_F(pool_manager_test, a_request_gets_its_whole_pool_beside_a_cached_copy_of_its_own_prefix) {
  const auto text = tokens(10, 32);
  const auto first = start(1, std::vector(text.begin(), text.begin() + 2), 32);
  ASSERT_TRUE(manager.commit(first.key, std::span(text).subspan(2), 31));
  ASSERT_TRUE(manager.release(first.key, {}));
  ASSERT_EQ(manager.usage(pool).num_cached, 7U);
  // The prompt is shorter than a block, so everything is computed again, one block at a time, with a
  // look-ahead of two.
  auto again = start(2, std::vector(text.begin(), text.begin() + 2), 3);
  for (std::uint32_t length = 3; length < 32; ++length) {
    const auto grown = manager.reserve(again.key, std::min(length + 2, 32U));
    ASSERT_TRUE(grown) << length << ": " << grown.error().message();
    again = *grown;
    ASSERT_TRUE(manager.commit(again.key, std::span(text).subspan(length - 1, 1), length - 1));
    ASSERT_TRUE(manager.check_invariants()) << length;
  }
  EXPECT_EQ(again.blocks.size(), 8U);
  // Blocks that were evicted from the index are in it again, from the request's own blocks.
  ASSERT_TRUE(manager.commit(again.key, std::span(text).subspan(31, 1), 31));
  ASSERT_TRUE(manager.release(again.key, {}));
  EXPECT_EQ(start(3, text, 32).length, 28U);
}

TEST_F(pool_manager_test, an_idle_copy_above_blocks_in_use_can_be_evicted) {
  const auto text = tokens(10, 16);
  const auto a = start(1, text, 16);
  const auto b = start(2, text, 16); // at the same time: nothing can be shared yet
  ASSERT_TRUE(manager.commit(a.key, {}, 4));
  ASSERT_TRUE(
      manager.commit(b.key, {}, 16)); // its first block has the content of a's, its others are the index's
  ASSERT_TRUE(manager.release(a.key, {}));
  ASSERT_EQ(manager.usage(pool).num_cached, 1U);
  const auto c = start(3, tokens(50, 1), 16); // four blocks, of which three are free
  EXPECT_EQ(manager.usage(pool).num_cached, 0U);
  EXPECT_EQ(manager.counters(pool).num_evicted_blocks, 1U);
  ASSERT_TRUE(manager.release(c.key, {}));
  EXPECT_EQ(manager.usage(pool).num_active, 4U);
  EXPECT_EQ(manager.usage(pool).num_free, 4U);
  ASSERT_TRUE(manager.commit(b.key, tokens(26, 1), 16));
  EXPECT_EQ(start(4, text, 16).length, 15U) << "b has published its own blocks";
}

TEST_F(pool_manager_test, without_room_for_the_source_of_a_copy_its_cells_are_computed_again) {
  const auto prompt = tokens(10, 28);
  const auto a = start(1, prompt, 28);
  ASSERT_TRUE(manager.commit(a.key, {}, 28));
  ASSERT_TRUE(manager.release(a.key, {}));
  const auto b = start(2, prompt, 32); // six blocks shared, two new: the pool has no others
  EXPECT_EQ(b.blocks.size(), 8U);
  EXPECT_EQ(b.length, 24U);
  EXPECT_TRUE(copies.empty());
  EXPECT_EQ(manager.usage(pool).num_active, 8U);
}

TEST(pool_manager_spaces, lend_each_other_nothing) {
  pool_manager manager(std::vector<std::uint64_t>{100, 400});
  const auto add = [&](std::uint32_t space, std::uint32_t num_blocks) {
    return manager.add_pool({.name = "pool",
                             .num_blocks = num_blocks,
                             .block_size = 4,
                             .block_bytes = 100,
                             .slab_blocks = 1,
                             .space = space});
  };
  const auto small = *add(0, 4);
  const auto first = *add(1, 4);
  const auto second = *add(1, 4);
  const auto ask = [&](pool_id pool, std::uint64_t request, std::uint32_t length) {
    const auto prompt = tokens(static_cast<std::int32_t>(request) * 1000, length);
    return manager.acquire(pool, request_id{request}, {prompt, length, {}, length});
  };
  const auto kept = ask(first, 1, 12);
  ASSERT_TRUE(kept);
  EXPECT_EQ(manager.reach_blocks(small), 1U);
  EXPECT_EQ(ask(small, 1, 5).error().code(), errc::resource_exhausted) << "whatever the other space has";
  EXPECT_TRUE(ask(small, 1, 4));
  EXPECT_EQ(manager.available_blocks(second), 1U);
  EXPECT_EQ(ask(second, 1, 8).error().code(), errc::pool_full);
  // Cached prefixes are evicted for pools of their own space only.
  ASSERT_TRUE(manager.commit(kept->lease.key, {}, 12));
  ASSERT_TRUE(manager.release(kept->lease.key, {}));
  EXPECT_EQ(ask(small, 2, 4).error().code(), errc::pool_full);
  EXPECT_EQ(manager.usage(first).num_cached, 3U);
  EXPECT_TRUE(ask(second, 1, 16));
  EXPECT_EQ(manager.usage(first).num_cached, 0U);
  const auto ok = manager.check_invariants();
  EXPECT_TRUE(ok.has_value()) << ok.error().message();
  EXPECT_EQ(add(2, 4).error().code(), errc::invalid_argument) << "there is no such space";
}

TEST(pool_manager_limits, a_pool_at_its_own_limit_leaves_the_caches_of_others_alone) {
  pool_manager manager(1U << 20);
  auto config = small_pool(4);
  config.min_blocks = 0;
  const auto idle = *manager.add_pool(config), busy = *manager.add_pool(config);
  for (const auto pool : {idle, busy}) {
    const auto prompt = tokens(0, 16);
    const auto made = manager.acquire(pool, request_id{1}, {prompt, 16, {}, 16});
    ASSERT_TRUE(made);
    ASSERT_TRUE(manager.commit(made->lease.key, {}, 16));
    ASSERT_TRUE(manager.release(made->lease.key, {}));
  }
  const auto other = tokens(100, 8);
  ASSERT_TRUE(manager.acquire(busy, request_id{2}, {other, 8, {}, 8}));
  EXPECT_EQ(manager.usage(idle).num_cached, 4U) << "their memory would not help";
  EXPECT_EQ(manager.usage(busy).num_cached, 2U);
}

/// A target and a drafter that share memory for ten blocks; two are the drafter's own.
class shared_budget_test : public testing::Test {
 protected:
  lease start(pool_id pool, std::uint64_t request, std::uint32_t length) {
    const auto prompt = tokens(static_cast<std::int32_t>(request) * 1000, length);
    const auto answer = manager.acquire(pool, request_id{request}, {prompt, length, {}, length});
    EXPECT_TRUE(answer.has_value()) << answer.error().message();
    return answer->lease;
  }
  expected<new_lease> ask(pool_id pool, std::uint64_t request, std::uint32_t length) {
    const auto prompt = tokens(static_cast<std::int32_t>(request) * 1000, length);
    return manager.acquire(pool, request_id{request}, {prompt, length, {}, length});
  }
  void TearDown() override { EXPECT_TRUE(manager.check_invariants()); }

  pool_manager manager{1000};
  pool_id target_pool = *manager.add_pool(
      {.name = "target", .num_blocks = 10, .block_size = 4, .block_bytes = 100, .slab_blocks = 2});
  pool_id draft_pool = *manager.add_pool({.name = "draft",
                                          .num_blocks = 40,
                                          .block_size = 4,
                                          .block_bytes = 25,
                                          .slab_blocks = 4,
                                          .min_blocks = 8});
};

TEST_F(shared_budget_test, a_pool_grows_into_what_others_do_not_use_and_no_further) {
  start(target_pool, 1, 32);
  EXPECT_EQ(ask(target_pool, 2, 1).error().code(), errc::pool_full);
  EXPECT_TRUE(ask(draft_pool, 1, 32));
  EXPECT_EQ(ask(draft_pool, 2, 1).error().code(), errc::pool_full);
}

TEST_F(shared_budget_test, memory_returns_to_the_budget_when_its_slab_is_empty) {
  const auto l = start(target_pool, 1, 32);
  ASSERT_TRUE(manager.release(l.key, {target, 1}));
  EXPECT_EQ(ask(draft_pool, 1, 33).error().code(), errc::pool_full);
  manager.on_watermark(target, 1);
  EXPECT_TRUE(ask(draft_pool, 1, 160));
}

TEST_F(shared_budget_test, cached_prefixes_of_another_pool_give_way) {
  const auto l = start(draft_pool, 1, 160);
  ASSERT_TRUE(manager.commit(l.key, {}, 160));
  ASSERT_TRUE(manager.release(l.key, {}));
  ASSERT_EQ(manager.usage(draft_pool).num_cached, 40U);
  start(target_pool, 1, 32);
  EXPECT_EQ(manager.usage(draft_pool).num_cached, 8U);
  EXPECT_EQ(manager.counters(draft_pool).num_evicted_blocks, 32U);
}

TEST_F(shared_budget_test, the_least_recently_used_prefix_of_all_pools_gives_way_first) {
  const auto keep = [&](pool_id pool, std::uint64_t request, std::uint32_t length) {
    const auto l = start(pool, request, length);
    ASSERT_TRUE(manager.commit(l.key, {}, length));
    ASSERT_TRUE(manager.release(l.key, {}));
  };
  keep(draft_pool, 1, 96); // of a drafter that nobody uses any more
  keep(target_pool, 1, 8);
  keep(target_pool, 2, 8);
  ASSERT_EQ(manager.usage(draft_pool).num_cached, 24U);
  ASSERT_EQ(manager.usage(target_pool).num_cached, 4U);
  start(target_pool, 3, 16);
  EXPECT_EQ(manager.usage(target_pool).num_cached, 4U) << "all of them are more recent";
  EXPECT_EQ(manager.usage(draft_pool).num_cached, 8U) << "its own memory";
  start(target_pool, 4, 8);
  EXPECT_EQ(manager.usage(target_pool).num_cached, 2U);
  keep(draft_pool, 2, 32);
  EXPECT_EQ(manager.usage(target_pool).num_cached, 2U) << "the drafter's first prefix is older";
}

TEST_F(shared_budget_test, a_request_that_cannot_be_helped_leaves_the_caches_alone) {
  const auto cached = start(target_pool, 1, 8);
  ASSERT_TRUE(manager.commit(cached.key, {}, 8));
  ASSERT_TRUE(manager.release(cached.key, {}));
  start(target_pool, 2, 16);
  start(draft_pool, 1, 64);
  ASSERT_EQ(ask(target_pool, 3, 16).error().code(), errc::pool_full);
  EXPECT_EQ(manager.usage(target_pool).num_cached, 2U);
}

TEST_F(shared_budget_test, the_reach_of_a_pool_leaves_the_others_their_minimum) {
  EXPECT_EQ(manager.reach_blocks(target_pool), 8U);
  EXPECT_EQ(manager.reach_blocks(draft_pool), 40U);
  EXPECT_EQ(ask(target_pool, 1, 33).error().code(), errc::resource_exhausted);
}

} // namespace
} // namespace paceline::kv
