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

} // namespace
} // namespace paceline::actors
