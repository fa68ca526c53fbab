#include "actors/kv_pool_state.hpp"

#include <gtest/gtest.h>

namespace paceline::actors {
namespace {

using namespace scheduling;

std::vector<token_id> text(std::uint32_t num) {
  std::vector<token_id> out;
  for (std::uint32_t i = 0; i < num; ++i) out.emplace_back(static_cast<std::int32_t>(i));
  return out;
}

class kv_pool_state_test : public testing::Test {
 protected:
  lease_event acquire(std::uint64_t request, std::vector<token_id> tokens, std::uint32_t num_positions) {
    return state
        .handle(model_number{0},
                {acquire_command{
                    request_id{request}, target_pool, std::move(tokens), {}, true, num_positions, 1}})
        .leases.at(0);
  }
  lease_event reserve(std::uint64_t request, std::uint32_t num_positions) {
    return state
        .handle(model_number{0}, {reserve_command{request_id{request}, target_pool, num_positions, 1}})
        .leases.at(0);
  }
  bool news_of(pool_command command) {
    return !state.handle(model_number{0}, {std::move(command)}).freed_models.empty();
  }
  void TearDown() override { EXPECT_EQ(state.check_invariants(), ""); }

  kv::pool_manager manager{1 << 20};
  kv::pool_id pool = *manager.add_pool(
      {.name = "target", .num_blocks = 6, .block_size = 4, .block_bytes = 100, .slab_blocks = 1});
  kv_pool_state state{manager, {{pool}}};
};

TEST_F(kv_pool_state_test, a_refusal_tells_whether_state_slots_are_missing_or_blocks) {
  kv::pool_manager with_states{1 << 20};
  const auto id = *with_states.add_pool({.name = "target",
                                         .num_blocks = 6,
                                         .block_size = 4,
                                         .block_bytes = 100,
                                         .slab_blocks = 1,
                                         .num_state_slots = 3});
  kv_pool_state pools{with_states, {{id}}};
  const auto ask = [&](std::uint64_t request, std::uint32_t num_positions) {
    acquire_command command{request_id{request}, target_pool, text(3), {}, true, num_positions, 1};
    command.min_state_slots = command.max_state_slots = 2;
    return pools.handle(model_number{0}, {command}).leases.at(0);
  };
  ASSERT_TRUE(ask(1, 4).granted);
  const auto no_states = ask(2, 4);
  EXPECT_FALSE(no_states.granted);
  EXPECT_TRUE(no_states.lacks_states);
  const auto no_blocks = ask(3, 24);
  EXPECT_FALSE(no_blocks.granted);
  EXPECT_FALSE(no_blocks.lacks_states);
  EXPECT_EQ(pools.handle(model_number{0}, {release_command{request_id{1}, target_pool, 0}}).freed_models,
            std::vector{model_number{0}});
}

TEST_F(kv_pool_state_test, blocks_that_come_back_are_news_once_to_who_was_refused) {
  ASSERT_TRUE(acquire(1, text(3), 20).granted);
  EXPECT_FALSE(news_of(watermark_event{target_pool, 1})) << "nobody was refused";
  ASSERT_FALSE(acquire(2, text(3), 8).granted);
  EXPECT_TRUE(news_of(release_command{request_id{1}, target_pool, 1}));
  EXPECT_FALSE(news_of(watermark_event{target_pool, 2}));
  EXPECT_TRUE(acquire(2, text(3), 8).granted);
}

TEST_F(kv_pool_state_test, a_watermark_is_news_only_if_blocks_waited_for_it) {
  ASSERT_TRUE(acquire(1, text(3), 20).granted);
  ASSERT_FALSE(acquire(2, text(3), 8).granted);
  EXPECT_FALSE(news_of(watermark_event{target_pool, 1})) << "nothing has come back";
  EXPECT_FALSE(news_of(release_command{request_id{1}, target_pool, 3})) << "the stream may still use them";
  EXPECT_FALSE(news_of(watermark_event{target_pool, 2}));
  EXPECT_TRUE(news_of(watermark_event{target_pool, 3}));
  EXPECT_TRUE(acquire(2, text(3), 8).granted);
}

TEST_F(kv_pool_state_test, the_source_of_a_copy_is_news_when_its_commit_lets_it_go) {
  ASSERT_TRUE(acquire(1, text(8), 8).granted);
  state.handle(model_number{0}, {commit_command{request_id{1}, target_pool, 8, {}, 8}});
  state.handle(model_number{0}, {release_command{request_id{1}, target_pool, 0}});
  const auto copied = acquire(2, text(8), 9); // shares one block, and copies cells of a second
  ASSERT_EQ(copied.num_cached, 7U);
  ASSERT_FALSE(reserve(2, 21).granted) << "six blocks, of which the source holds one";
  EXPECT_TRUE(news_of(commit_command{request_id{2}, target_pool, 8, {}, 8}));
  EXPECT_TRUE(reserve(2, 21).granted);
}

/// A target's pool and a drafter's, whose text begins with the request's second token.
class drafters_pool_test : public testing::Test {
 protected:
  static constexpr pool_number drafters{1};

  lease_event say(pool_command command) {
    auto answers = state.handle(model_number{0}, {std::move(command)}).leases;
    return answers.empty() ? lease_event{} : std::move(answers.front());
  }
  /// Cells that the drafter finds for a request with this prompt.
  std::uint32_t begin(std::uint64_t request, std::vector<token_id> prompt, const std::string& salt = {},
                      std::optional<std::uint32_t> text_begin = 1) {
    const auto length = static_cast<std::uint32_t>(prompt.size());
    say(acquire_command{request_id{request}, target_pool, std::move(prompt), salt, true, length, 1});
    const auto opened =
        say(acquire_for_drafter_command{request_id{request}, drafters, length, 1, text_begin});
    EXPECT_TRUE(opened.granted);
    return opened.num_cached;
  }
  void commit(std::uint64_t request, std::uint32_t num_cells) {
    say(commit_command{request_id{request}, drafters, 0, {}, num_cells});
  }
  void end(std::uint64_t request) {
    for (const auto pool : {target_pool, drafters}) say(release_command{request_id{request}, pool, 0});
  }
  std::uint32_t num_cached() const { return manager.usage(ids[1]).num_cached; }
  void TearDown() override { EXPECT_EQ(state.check_invariants(), ""); }

  kv::pool_manager manager{1 << 20};
  std::vector<kv::pool_id> ids{
      *manager.add_pool(
          {.name = "target", .num_blocks = 40, .block_size = 4, .block_bytes = 100, .slab_blocks = 1}),
      *manager.add_pool(
          {.name = "drafter", .num_blocks = 40, .block_size = 4, .block_bytes = 10, .slab_blocks = 1})};
  kv_pool_state state{manager, {ids}};
};

TEST_F(drafters_pool_test, finds_what_a_drafter_computed_for_the_same_text) {
  EXPECT_EQ(begin(1, text(14)), 0U);
  commit(1, 9); // of 13
  end(1);
  EXPECT_EQ(num_cached(), 2U) << "two of its blocks are full";
  EXPECT_EQ(begin(2, text(14)), 8U);
  commit(2, 13);
  auto longer = text(14);
  longer[13] = token_id{99};
  EXPECT_EQ(begin(3, longer), 12U) << "while the other one runs; cell 12 is of token 13";
  EXPECT_EQ(begin(4, text(13)), 8U + 3) << "all but the newest token's, which is computed again";
  EXPECT_EQ(manager.counters(ids[1]).num_hit_tokens, 8U + 12 + 11);
}

TEST_F(drafters_pool_test, shares_nothing_where_the_cells_would_differ) {
  EXPECT_EQ(begin(1, text(14), "one"), 0U);
  commit(1, 13);
  end(1);
  EXPECT_EQ(begin(2, text(14), "two"), 0U) << "another salt";
  auto other = text(14);
  other[0] = token_id{99}; // not part of the drafter's text, but of what its cells depend on
  EXPECT_EQ(begin(3, other, "one"), 0U);
  EXPECT_EQ(begin(4, text(14), "one", std::nullopt), 0U) << "cells that are no function of the text";
  commit(4, 13);
  end(4);
  EXPECT_EQ(num_cached(), 3U) << "those of the first only";
  EXPECT_EQ(begin(5, text(14), "one"), 12U);
}

TEST_F(drafters_pool_test, gives_a_whole_answer_again_if_the_first_was_lost) {
  begin(1, text(14));
  commit(1, 13);
  end(1);
  say(acquire_command{request_id{2}, target_pool, text(13), {}, true, 13, 1});
  const acquire_for_drafter_command first{request_id{2}, drafters, 16, 1, 1};
  const auto lost = say(first), again = say(first);
  EXPECT_EQ(again.num_cached, 11U) << "or the drafter would write to blocks that others read";
  EXPECT_EQ(again.copies.size(), 1U);
  EXPECT_EQ(again.blocks.size(), lost.blocks.size());
  EXPECT_EQ(manager.usage(ids[1]).num_requests, 1U);
  const auto longer = say(reserve_command{request_id{2}, drafters, 20, 2});
  EXPECT_EQ(longer.num_cached, 0U) << "it has its cells";
  EXPECT_EQ(longer.blocks.size(), 5U);
}

TEST_F(drafters_pool_test, closes_leases_that_are_not_held_after_a_restart) {
  begin(1, text(14));
  begin(2, text(14));
  say(retain_command{
      {{request_id{1}, target_pool}, {request_id{1}, drafters}, {request_id{2}, target_pool}}});
  EXPECT_EQ(manager.usage(ids[0]).num_requests, 2U);
  EXPECT_EQ(manager.usage(ids[1]).num_requests, 1U);
  commit(1, 13);
  EXPECT_EQ(begin(3, text(14)), 12U) << "the first one's cells";
}

TEST_F(drafters_pool_test, learns_later_tokens_from_the_targets_pool) {
  EXPECT_EQ(begin(1, text(6)), 0U);
  say(reserve_command{request_id{1}, drafters, 20, 2});
  commit(1, 9);
  EXPECT_EQ(num_cached(), 0U) << "cells of tokens that nobody knows";
  say(commit_command{request_id{1}, target_pool, 6, {token_id{6}, token_id{7}, token_id{8}, token_id{9}}, 6});
  commit(1, 9);
  end(1);
  EXPECT_EQ(num_cached(), 2U);
  EXPECT_EQ(begin(2, text(12)), 8U);
  EXPECT_EQ(begin(3, {token_id{0}}), 0U) << "it has no text yet";
  commit(3, 1);
}

} // namespace
} // namespace paceline::actors
