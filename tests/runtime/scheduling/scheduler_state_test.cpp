#include "runtime/scheduling/scheduler_state.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <variant>

namespace paceline::scheduling {
namespace {

constexpr time_point start{std::chrono::hours(1)};
constexpr request_id first_request{1};

std::shared_ptr<sequence> make_sequence(request_id id, std::uint32_t prompt_length,
                                        std::uint32_t max_tokens) {
  generation_request request;
  for (std::uint32_t i = 0; i < prompt_length; ++i) request.prompt.emplace_back(static_cast<std::int32_t>(i));
  request.stop.max_tokens = max_tokens;
  return std::make_shared<sequence>(id, std::move(request), 64, nullptr, start);
}

/// A drafter with a pool of its own is number 1.
scheduler_options small_options() {
  scheduler_options options;
  options.block_size = 4;
  options.context_length = 64;
  options.num_blocks = 16;
  options.drafters = {{"none", 0, 0, false}, {"model", 3, 1, true}};
  return options;
}

/// The last command of one kind.
template <class Command>
std::optional<Command> last(const decisions& d) {
  for (auto c = d.pool.rbegin(); c != d.pool.rend(); ++c)
    if (const auto* found = std::get_if<Command>(&*c)) return *found;
  return std::nullopt;
}

lease_event grant(request_id request, std::uint32_t pool, std::uint64_t ticket, std::uint32_t num_blocks) {
  lease_event answer{request, pool, ticket, true, {}, 0, {}};
  for (std::uint32_t i = 0; i < num_blocks; ++i) answer.blocks.emplace_back(i);
  return answer;
}

/// What the device did with a round that computed a prompt and committed one token.
round_result done(const round_plan& plan, std::uint32_t num_rows, std::uint32_t length) {
  round_result result;
  result.round = plan.round;
  result.group = plan.group;
  result.started = true;
  item_result item;
  item.request = plan.items.at(0).target->id();
  item.num_rows = num_rows;
  item.length = length;
  item.kv_length = length - 1;
  item.committed = {token_id{7}};
  result.items = {item};
  result.submissions = {plan.round.value, 0};
  return result;
}

TEST(scheduler_state_test, a_lost_round_is_planned_again_with_its_copies) {
  scheduler_state state(small_options());
  const auto asked = last<acquire_command>(state.submit(make_sequence(first_request, 8, 10), 0, 100, start));
  ASSERT_TRUE(asked);
  auto answer = grant(first_request, 0, asked->ticket, 3);
  answer.num_cached = 7;
  answer.copies = {{block_id{9}, 0, block_id{1}, 0, 3}};
  const auto planned = state.on_lease(answer, start);
  ASSERT_FALSE(planned.rounds.empty());
  ASSERT_EQ(planned.rounds[0].items.at(0).copies.size(), 1U);
  ASSERT_EQ(planned.rounds[0].items.at(0).restart_at, 7U);

  const auto again = state.on_rounds_lost({}, start);
  ASSERT_FALSE(again.rounds.empty());
  EXPECT_EQ(again.rounds[0].items.at(0).restart_at, 7U);
  ASSERT_EQ(again.rounds[0].items.at(0).copies.size(), 1U)
      << "the cells of the cached prefix would be missing";
  EXPECT_EQ(again.rounds[0].items.at(0).copies[0].from_block, block_id{9});
  EXPECT_EQ(state.check_invariants(), "");
}

TEST(scheduler_state_test, a_lost_round_tells_the_drafter_of_its_new_memory_again) {
  scheduler_state state(small_options());
  const auto asked = last<acquire_command>(state.submit(make_sequence(first_request, 8, 10), 1, 100, start));
  ASSERT_TRUE(asked);
  const auto prompt = state.on_lease(grant(first_request, 0, asked->ticket, 8), start);
  ASSERT_FALSE(prompt.rounds.empty());
  const auto wanted = last<reserve_command>(prompt);
  ASSERT_TRUE(wanted && wanted->pool == 1);
  state.on_lease(grant(first_request, 1, wanted->ticket, 8), start);
  const auto drafting = state.on_round_done(done(prompt.rounds[0], 8, 9), start);
  ASSERT_FALSE(drafting.rounds.empty());
  ASSERT_TRUE(drafting.rounds[0].items.at(0).drafter_restart);

  const auto again = state.on_rounds_lost({}, start);
  ASSERT_FALSE(again.rounds.empty());
  EXPECT_TRUE(again.rounds[0].items.at(0).drafter_restart);
}

} // namespace
} // namespace paceline::scheduling
