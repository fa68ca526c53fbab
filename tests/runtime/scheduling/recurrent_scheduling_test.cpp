// Slots of recurrent states: how many a request asks for, how long its drafts may be, and what it returns.
#include "tests/runtime/scheduling/played_scheduler.hpp"

#include <gtest/gtest.h>

namespace paceline::scheduling {
namespace {

using namespace test_support;

/// The target has a recurrent state. Each request gets slots for it together with its blocks.
scheduler_options recurrent_options() {
  auto options = small_options();
  options.drafters.push_back({"ngram", 6, {}, false});
  options.max_running = 1;
  options.state_interval = 8;
  options.num_states = 20;
  return options;
}

TEST(recurrent_scheduling, a_request_asks_for_the_states_of_its_longest_draft_and_of_its_snapshots) {
  scheduler_state state(recurrent_options());
  const auto plain =
      last<acquire_command>(state.submit(make_request(first_request, 8, 10), plain_decoding, 100, start));
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->least_states, 2U);
  EXPECT_EQ(plain->most_states, 2U);
  EXPECT_EQ(plain->spare_states, 18U / 8 + 1);
  scheduler_state other(recurrent_options());
  const auto drafting =
      last<acquire_command>(other.submit(make_request(first_request, 8, 10), drafter_index{2}, 100, start));
  ASSERT_TRUE(drafting);
  EXPECT_EQ(drafting->least_states, 2U);
  EXPECT_EQ(drafting->most_states, 2U + 6);
  EXPECT_EQ(drafting->spare_states, 18U / 8 + 1);
}

TEST(recurrent_scheduling, a_request_asks_for_no_more_states_than_leave_the_others_theirs) {
  auto options = recurrent_options();
  options.max_running = 4;
  for (const std::uint32_t num_states : {8U, 20U, 40U, 60U}) {
    options.num_states = num_states;
    scheduler_state state(options);
    for (std::uint32_t there = 1; there <= 4; ++there) {
      // A text of full length. Each request that may still come needs at least two states.
      const auto asked = last<acquire_command>(
          state.submit(make_request(request_id{there}, 8, 56), drafter_index{2}, 100, start));
      ASSERT_TRUE(asked) << there;
      const auto share = std::max(num_states / 4, (num_states - 2 * (4 - there)) / there);
      EXPECT_LE(asked->most_states + asked->spare_states, std::max(share, asked->most_states + 1))
          << num_states << " for " << there;
      EXPECT_GE(asked->spare_states, 1U) << "behind the prompt";
      EXPECT_EQ(asked->most_states, std::min(std::max(share, 2U), 8U)) << num_states << " for " << there;
      state.on_leases({grant(request_id{there}, target_pool, asked->ticket, 64)}, false, start);
    }
  }
  options.prefix_cache = false;
  scheduler_state state(options);
  const auto asked =
      last<acquire_command>(state.submit(make_request(first_request, 8, 56), drafter_index{2}, 100, start));
  ASSERT_TRUE(asked);
  EXPECT_EQ(asked->spare_states, 0U) << "nobody would find them";
}

TEST(recurrent_scheduling, drafts_are_as_long_as_the_states_that_were_granted) {
  for (const std::uint32_t num_states : {2U, 5U, 8U, 11U}) {
    scheduler_state state(recurrent_options());
    const auto asked =
        last<acquire_command>(state.submit(make_request(first_request, 8, 10), drafter_index{2}, 100, start));
    ASSERT_TRUE(asked);
    auto answer = grant(first_request, target_pool, asked->ticket, 8);
    for (std::uint32_t s = 0; s < num_states; ++s) answer.states.slots.emplace_back(s);
    const auto planned = state.on_leases({answer}, false, start);
    ASSERT_EQ(planned.rounds.size(), 2U); // the prompt, and the first draft behind it
    const auto& item = planned.rounds[1].items.at(0);
    ASSERT_TRUE(item.states);
    EXPECT_EQ(item.states->slots.size(), num_states);
    EXPECT_EQ(item.num_row_states, std::min(num_states, 8U)) << "the others are for snapshots";
    EXPECT_EQ(draft_limit(item, 9, 9, 4, 64).nodes, std::min(num_states - 2, 6U)) << num_states;
  }
}

TEST(recurrent_scheduling, a_search_that_can_never_have_its_states_is_refused) {
  for (const std::uint32_t width : {9U, 10U}) { // 20 and 22 states with that of the cache
    scheduler_state state(recurrent_options());
    generation_request request;
    request.prompt.assign(4, token_id{1});
    request.stop.max_tokens = 2;
    request.beams.width = width;
    const auto answer = state.submit(admitted(first_request, std::move(request)), plain_decoding, 100, start);
    ASSERT_EQ(answer.events.empty(), width == 9);
    if (width == 9) continue;
    EXPECT_EQ(answer.events[0].failure->code(), errc::invalid_argument);
    EXPECT_NE(answer.events[0].failure->message().find("needs 22 state slots, the KV pool has 20"),
              std::string::npos)
        << answer.events[0].failure->message();
  }
}

TEST(recurrent_scheduling, snapshots_go_to_the_pool_with_what_was_committed) {
  scheduler_state state(recurrent_options());
  const auto asked =
      last<acquire_command>(state.submit(make_request(first_request, 8, 10), plain_decoding, 100, start));
  ASSERT_TRUE(asked);
  auto answer = grant(first_request, target_pool, asked->ticket, 8);
  for (std::uint32_t s = 0; s < 4; ++s) answer.states.slots.emplace_back(s);
  const auto planned = state.on_leases({answer}, false, start);
  ASSERT_FALSE(planned.rounds.empty());
  auto result = done(planned.rounds[0], 8, 9);
  result.items[0].snapshots = {{8, state_slot{3}}};
  const auto committed = last<commit_command>(state.on_round_done(result, start));
  ASSERT_TRUE(committed);
  ASSERT_EQ(committed->snapshots.size(), 1U);
  EXPECT_EQ(committed->snapshots[0].length, 8U);
  EXPECT_EQ(committed->snapshots[0].slot, state_slot{3});
}

/// Sessions cancel requests that they leave; a cancellation lost with its scheduler is not repeated.
} // namespace
} // namespace paceline::scheduling
