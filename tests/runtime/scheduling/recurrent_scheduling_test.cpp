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
  options.num_state_slots = 20;
  return options;
}

TEST(recurrent_scheduling, a_request_asks_for_the_states_of_its_longest_draft_and_of_its_snapshots) {
  scheduler_state state(recurrent_options());
  const auto plain =
      last<acquire_command>(state.submit(make_request(first_request, 8, 10), plain_decoding, 100, start));
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->min_state_slots, 2U);
  EXPECT_EQ(plain->max_state_slots, 2U);
  EXPECT_EQ(plain->num_snapshot_slots, 18U / 8 + 2) << "after the prompt, and where it leaves another";
  scheduler_state other(recurrent_options());
  const auto drafting =
      last<acquire_command>(other.submit(make_request(first_request, 8, 10), drafter_index{2}, 100, start));
  ASSERT_TRUE(drafting);
  EXPECT_EQ(drafting->min_state_slots, 2U);
  EXPECT_EQ(drafting->max_state_slots, 2U + 6);
  EXPECT_EQ(drafting->num_snapshot_slots, 18U / 8 + 2);
}

/// Requests that arrive one after another and keep what they get: the slots of each, as long as there are
/// enough.
std::vector<std::pair<std::uint32_t, std::uint32_t>> slots_in_turn(const scheduler_options& options) {
  scheduler_state state(options);
  std::vector<std::pair<std::uint32_t, std::uint32_t>> got;
  std::uint32_t next = 0;
  for (std::uint32_t i = 1; i <= options.max_running && next + 2 <= options.num_state_slots; ++i) {
    // A text of full length.
    const auto asked =
        last<acquire_command>(state.submit(make_request(request_id{i}, 8, 56), drafter_index{2}, 100, start));
    if (!asked) break;
    auto answer = grant(request_id{i}, target_pool, asked->ticket, 64);
    for (std::uint32_t s = 0; s < asked->max_state_slots + asked->num_snapshot_slots; ++s)
      answer.states.slots.emplace_back(next++);
    got.emplace_back(asked->max_state_slots, asked->num_snapshot_slots);
    state.on_leases({answer}, false, start);
  }
  return got;
}

TEST(recurrent_scheduling, requests_that_arrive_in_turn_leave_each_other_their_states) {
  auto options = recurrent_options();
  options.max_running = 4;
  for (const std::uint32_t num_state_slots : {9U, 12U, 13U, 16U, 20U, 36U, 40U, 60U}) {
    options.num_state_slots = num_state_slots;
    const auto got = slots_in_turn(options);
    ASSERT_EQ(got.size(), num_state_slots == 9 ? 3U : 4U)
        << num_state_slots << ": two slots each, and a snapshot";
    std::uint32_t sum = 0;
    for (const auto& [rows, spare] : got) {
      EXPECT_GE(rows, 2U) << num_state_slots;
      EXPECT_GE(spare, 1U) << num_state_slots << ": the next turn of a conversation needs it";
      sum += rows + spare;
      // Two for a draft of no node, six nodes, and a snapshot for each request.
      if (num_state_slots < 4 * (2 + 6 + 1)) continue;
      EXPECT_EQ(rows, 8U) << num_state_slots;
    }
    EXPECT_LE(sum, num_state_slots);
    EXPECT_EQ(got[0].first > 2, num_state_slots > 12) << num_state_slots << ": the first one may draft";
  }
  options.num_state_slots = 20;
  options.prefix_cache = false;
  for (const auto& [rows, spare] : slots_in_turn(options)) EXPECT_EQ(spare, 0U) << "nobody would find them";
}

TEST(recurrent_scheduling,
     a_request_keeps_the_rows_that_it_asked_for_when_another_arrives_before_the_answer) {
  auto options = recurrent_options();
  options.max_running = 4;
  scheduler_state state(options);
  const auto asked =
      last<acquire_command>(state.submit(make_request(first_request, 8, 10), drafter_index{2}, 100, start));
  ASSERT_TRUE(asked);
  ASSERT_GT(asked->max_state_slots, 4U);
  for (std::uint32_t i = 2; i <= 4; ++i)
    state.submit(make_request(request_id{i}, 8, 10), drafter_index{2}, 100, start);
  auto answer = grant(first_request, target_pool, asked->ticket, 8);
  for (std::uint32_t s = 0; s < asked->max_state_slots + asked->num_snapshot_slots; ++s)
    answer.states.slots.emplace_back(s);
  const auto planned = state.on_leases({answer}, false, start);
  ASSERT_FALSE(planned.rounds.empty());
  EXPECT_EQ(planned.rounds[0].items.at(0).num_row_states, asked->max_state_slots);
}

TEST(recurrent_scheduling, probes_need_no_states) {
  auto options = recurrent_options();
  options.drafters[2].max_rows = [](std::uint32_t) { return 16U; };
  options.drafters[2].max_nodes = [](std::uint32_t) { return 6U; };
  scheduler_state state(options);
  const auto asked =
      last<acquire_command>(state.submit(make_request(first_request, 8, 10), drafter_index{2}, 100, start));
  ASSERT_TRUE(asked);
  EXPECT_EQ(asked->max_state_slots, 2U + 6);
}

TEST(recurrent_scheduling, a_worker_is_not_asked_for_drafts_that_have_no_states) {
  auto options = recurrent_options();
  options.drafters.push_back({"worker", 6, {}, true});
  for (const std::uint32_t num_state_slots : {2U, 5U}) {
    scheduler_state state(options);
    const auto asked =
        last<acquire_command>(state.submit(make_request(first_request, 8, 10), drafter_index{3}, 100, start));
    ASSERT_TRUE(asked);
    auto answer = grant(first_request, target_pool, asked->ticket, 8);
    for (std::uint32_t s = 0; s < num_state_slots; ++s) answer.states.slots.emplace_back(s);
    const auto planned = state.on_leases({answer}, false, start);
    ASSERT_EQ(planned.rounds.size(), 2U);
    const auto& item = planned.rounds[1].items.at(0);
    const auto nodes = num_state_slots == 2 ? 0U : num_state_slots - 3; // and one for a snapshot
    EXPECT_EQ(item.worker_length, nodes);
    EXPECT_EQ(item.draft_length, nodes);
    EXPECT_EQ(item.max_nodes, nodes);
  }
}

TEST(recurrent_scheduling, drafts_are_as_long_as_the_states_that_were_granted) {
  for (const std::uint32_t num_state_slots : {2U, 5U, 8U, 11U}) {
    scheduler_state state(recurrent_options());
    const auto asked =
        last<acquire_command>(state.submit(make_request(first_request, 8, 10), drafter_index{2}, 100, start));
    ASSERT_TRUE(asked);
    auto answer = grant(first_request, target_pool, asked->ticket, 8);
    for (std::uint32_t s = 0; s < num_state_slots; ++s) answer.states.slots.emplace_back(s);
    const auto planned = state.on_leases({answer}, false, start);
    ASSERT_EQ(planned.rounds.size(), 2U); // the prompt, and the first draft after it
    const auto& item = planned.rounds[1].items.at(0);
    ASSERT_TRUE(item.states);
    EXPECT_EQ(item.states->slots.size(), num_state_slots);
    const auto for_rows = std::clamp(num_state_slots - 1, 2U, 8U);
    EXPECT_EQ(item.num_row_states, for_rows) << "the others are for snapshots";
    EXPECT_EQ(draft_limit(item, 9, 9, 4, 64).nodes, for_rows - 2) << num_state_slots;
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

} // namespace
} // namespace paceline::scheduling
