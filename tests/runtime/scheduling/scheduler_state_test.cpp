#include "tests/runtime/scheduling/played_scheduler.hpp"

#include <gtest/gtest.h>

namespace paceline::scheduling {
namespace {

using namespace test_support;

TEST(scheduler_state_test, a_lost_round_is_planned_again_with_its_copies) {
  scheduler_state state(small_options());
  const auto asked =
      last<acquire_command>(state.submit(make_request(first_request, 8, 10), plain_decoding, 100, start));
  ASSERT_TRUE(asked);
  auto answer = grant(first_request, target_pool, asked->ticket, 3);
  answer.num_cached = 7;
  answer.copies = {{block_id{9}, 0, block_id{1}, 0, 3}};
  const auto planned = state.on_leases({answer}, false, start);
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

TEST(scheduler_state_test, a_restarted_pool_is_told_the_last_watermarks_again) {
  scheduler_state state(small_options());
  const auto asked =
      last<acquire_command>(state.submit(make_request(first_request, 8, 10), plain_decoding, 100, start));
  ASSERT_TRUE(asked);
  const auto planned = state.on_leases({grant(first_request, target_pool, asked->ticket, 3)}, false, start);
  EXPECT_FALSE(last<watermark_event>(state.on_pool_restarted(start))) << "no program has completed";
  ASSERT_FALSE(planned.rounds.empty());
  auto result = done(planned.rounds[0], 8, 9);
  result.submissions = {5, 3};
  state.on_round_done(result, start);

  std::vector<watermark_event> told;
  for (const auto& command : state.on_pool_restarted(start).pool)
    if (const auto* event = std::get_if<watermark_event>(&command)) told.push_back(*event);
  ASSERT_EQ(told.size(), 2U);
  EXPECT_TRUE(told[0].pool == target_pool && told[0].sequence == 5);
  EXPECT_TRUE(told[1].pool == pool_number{1} && told[1].sequence == 3);
}

TEST(scheduler_state_test, a_request_that_nobody_waits_for_is_cancelled) {
  auto options = small_options();
  options.max_running = 1;
  played_scheduler play(options);
  const auto running = play.submit(2), waiting = play.submit(2), wanted = play.submit(2);
  play.report_all();
  play.wait(std::chrono::milliseconds(50));
  EXPECT_TRUE(play.released.empty()) << "all have their clients";
  play.without_session = {running, waiting};
  play.wait(std::chrono::milliseconds(50));
  play.report_all();
  EXPECT_EQ(play.released, std::vector{running});
  EXPECT_EQ(play.admitted_since(), (std::vector{running, wanted})) << "the other never began";
  EXPECT_EQ(play.state.counters().finished_cancelled, 2U);
  EXPECT_EQ(play.state.check_invariants(), "");
}

/// Whichever of the first rounds with the lease runs, its drafter learns what it needs.
TEST(scheduler_state_test, rounds_name_the_drafters_lease_and_its_copies_until_cells_are_reported) {
  scheduler_state state(small_options());
  const auto asked =
      last<acquire_command>(state.submit(make_request(first_request, 8, 10), drafter_index{1}, 100, start));
  ASSERT_TRUE(asked);
  const auto prompt = state.on_leases({grant(first_request, target_pool, asked->ticket, 8)}, false, start);
  ASSERT_FALSE(prompt.rounds.empty());
  const auto wanted = last<acquire_for_drafter_command>(prompt);
  ASSERT_TRUE(wanted && wanted->pool == pool_number{1});
  auto lease = grant(first_request, pool_number{1}, wanted->ticket, 8);
  lease.num_cached = 7;
  lease.copies = {{block_id{9}, 0, block_id{1}, 0, 3}};
  state.on_leases({lease}, false, start);
  std::vector<plan_item> items;
  const auto keep = [&](const decisions& decided) {
    for (const auto& round : decided.rounds) items.push_back(round.items.at(0));
    return decided.rounds.empty() ? round_plan{} : round_plan(decided.rounds[0]);
  };
  keep(state.on_round_done(done(prompt.rounds[0], 8, 9), start));
  const auto again = keep(state.on_rounds_lost({}, start));
  ASSERT_GE(items.size(), 2U);
  for (const auto& item : items) {
    EXPECT_EQ(item.drafter_lease, wanted->ticket);
    EXPECT_EQ(item.drafter_copies.size(), 1U);
    EXPECT_EQ(item.num_drafter_cells, 7U);
  }
  items.clear();
  auto result = done(again, 1, 10);
  result.items.at(0).num_drafter_cells = 9;
  keep(state.on_round_done(result, start));
  ASSERT_FALSE(items.empty());
  EXPECT_EQ(items.back().drafter_lease, wanted->ticket);
  EXPECT_TRUE(items.back().drafter_copies.empty()) << "they were made";
  EXPECT_EQ(items.back().num_drafter_cells, 9U);
}

TEST(scheduler_state_test, counts_rounds_in_which_a_worker_drafted_for_all_after_the_verdict) {
  scheduler_state state(small_options());
  const auto asked =
      last<acquire_command>(state.submit(make_request(first_request, 8, 40), drafter_index{1}, 100, start));
  ASSERT_TRUE(asked);
  auto planned = state.on_leases({grant(first_request, target_pool, asked->ticket, 16)}, false, start).rounds;
  std::uint32_t length = 8;
  const auto report = [&](std::uint32_t num_rows, std::vector<draft_time> drafting) {
    ASSERT_FALSE(planned.empty());
    auto result = done(planned.front(), num_rows, ++length);
    result.duration = std::chrono::nanoseconds(100);
    result.drafting = std::move(drafting);
    planned.erase(planned.begin());
    for (auto& next : state.on_round_done(result, start).rounds) planned.push_back(std::move(next));
  };
  const auto draft = [](std::uint32_t num_drafted, bool catching_up) {
    return draft_time{drafter_index{1}, 3, std::chrono::nanoseconds(30), 0, 0, num_drafted, catching_up};
  };
  report(8, {draft(1, false)}); // a prompt
  report(4, {draft(1, true)});  // the drafter read it
  report(4, {draft(0, false)}); // its draft was ready
  report(4, {});
  report(4, {draft(1, false), draft(1, false)}); // the drafting time cannot be attributed
  report(4, {draft(1, false)});
  report(4, {draft(1, false)});
  const auto& counted = state.counters().drafted_by_requests;
  ASSERT_EQ(counted.size(), 1U);
  EXPECT_EQ(counted[0].num, 2U);
  EXPECT_EQ(counted[0].verification.count(), 200);
  EXPECT_EQ(counted[0].drafting.count(), 60);
}

TEST(scheduler_state_test, a_model_out_of_service_gives_its_memory_back) {
  scheduler_state state(small_options());
  const auto asked =
      last<acquire_command>(state.submit(make_request(first_request, 8, 10), plain_decoding, 100, start));
  ASSERT_TRUE(asked);
  const auto planned = state.on_leases({grant(first_request, target_pool, asked->ticket, 3)}, false, start);
  ASSERT_FALSE(planned.rounds.empty()) << "in flight, perhaps for ever";
  const auto alive = last<retain_command>(state.take_out_of_service({errc::out_of_service, "gone"}));
  ASSERT_TRUE(alive);
  EXPECT_TRUE(alive->leases.empty());
}

/// A scheduler whose drafter proposes three siblings per level, with one request that is about to decode.
class tree_scheduling : public testing::Test {
 protected:
  static scheduler_options options() {
    auto o = small_options();
    const auto three_each = [](std::uint32_t length) { return 3 * length; };
    o.drafters[1] = {"tree", 4, {}, false, three_each, three_each};
    return o;
  }
  /// Admits request `id` with 20 positions; two rounds are in flight then, the prompt's and one with a draft.
  decisions admit(std::uint64_t id) {
    const auto asked = last<acquire_command>(
        state.submit(make_request(request_id{id}, 8, 30), drafter_index{1}, 100, start));
    EXPECT_TRUE(asked);
    EXPECT_EQ(asked->num_positions, 8U + 1 + 12) << "the prompt, its token, and the nodes of the first draft";
    return state.on_leases({grant(request_id{id}, target_pool, asked->ticket, 5)}, false, start);
  }
  static lease_event refusal(const reserve_command& asked) {
    return {asked.request, target_pool, asked.ticket, false, {}, 0, {}};
  }

  scheduler_state state{options()};
};

TEST_F(tree_scheduling, leases_reach_ahead_for_all_nodes) {
  const auto running = admit(1);
  ASSERT_EQ(running.rounds.size(), 2U);
  EXPECT_EQ(running.rounds[1].items.at(0).draft_length, 4U);
  EXPECT_EQ(running.rounds[1].items.at(0).max_nodes, 12U);
  const auto asked = last<reserve_command>(running);
  ASSERT_TRUE(asked);
  EXPECT_EQ(asked->num_positions, 9U + 5 + 13) << "one chain's growth, then all nodes and a token";
}

TEST_F(tree_scheduling, a_refused_tree_asks_for_a_chain_and_then_for_a_token_a_round) {
  const auto running = admit(1);
  const auto tree = last<reserve_command>(running);
  ASSERT_TRUE(tree);
  state.on_leases({refusal(*tree)}, false, start);
  const auto next =
      state.on_round_done(done(running.rounds[0], 8, 9), start); // 14 tokens with the round in flight
  ASSERT_EQ(next.rounds.size(), 1U);
  EXPECT_EQ(next.rounds[0].items.at(0).max_nodes, 10U) << "what the blocks of a chain have room for";
  const auto chain = last<reserve_command>(next);
  ASSERT_TRUE(chain);
  EXPECT_EQ(chain->num_positions, 14U + 2 * 5);
  state.on_leases({refusal(*chain)}, false, start);
  const auto after = state.on_round_done(done(running.rounds[1], 13, 14), start); // 19 tokens
  const auto plain = last<reserve_command>(after);
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->num_positions, 19U + 2);
  EXPECT_EQ(after.rounds.size(), 1U) << "twenty positions do for now";
  const auto again = last<reserve_command>(state.on_leases({refusal(*plain)}, false, start));
  EXPECT_FALSE(again) << "nothing less helps";
  EXPECT_EQ(state.counters().num_preemptions, 0U);
  EXPECT_EQ(state.check_invariants(), "");
}

TEST_F(tree_scheduling, what_trees_hold_goes_back_for_a_newcomer) {
  const auto running = admit(1);
  const auto tree = last<reserve_command>(running);
  ASSERT_TRUE(tree);
  state.on_leases({grant(request_id{1}, target_pool, tree->ticket, 9)}, false,
                  start); // 36 positions: a chain of 14 tokens wants 24
  const auto newcomer =
      last<acquire_command>(state.submit(make_request(request_id{2}, 8, 30), drafter_index{1}, 100, start));
  ASSERT_TRUE(newcomer);
  const auto answer = state.on_leases(
      {lease_event{request_id{2}, target_pool, newcomer->ticket, false, {}, 0, {}}}, false, start);
  const auto back = last<rollback_command>(answer);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->request, request_id{1});
  EXPECT_EQ(back->num_positions, 24U);
  const auto again = last<acquire_command>(answer);
  ASSERT_TRUE(again) << "and the newcomer asks again at once";
  EXPECT_EQ(again->num_positions, 8U + 1 + 4);
}

struct own_pool {
  std::uint32_t own = 0; ///< cells that a draft takes there; 0: one per level
  bool caches_text = true;
  std::uint32_t block = 0; ///< of `own` those of any draft
  std::uint32_t max_tokens = 10;
  bool is_refused = false;                      ///< what is asked for first
  std::optional<std::uint32_t> text_begin = {}; ///< hypotheses can share its cells
};

/// Positions requested in the drafter's pool by a request that searches with `width` hypotheses (0: no
/// search).
std::uint32_t drafter_positions(std::uint32_t width, ahead_mode overlap, own_pool pool = {}) {
  auto options = small_options();
  options.overlap = {overlap};
  if (pool.own > 0) options.drafters[1].own_positions = [own = pool.own](std::uint32_t) { return own; };
  options.drafters[1].caches_text = pool.caches_text;
  options.drafters[1].block_positions = pool.block;
  options.drafters[1].text_begin = pool.text_begin;
  scheduler_state state(options);
  generation_request request;
  request.prompt.assign(8, token_id{1});
  request.stop.max_tokens = pool.max_tokens;
  request.beams.width = width;
  const auto asked = last<acquire_command>(
      state.submit(admitted(first_request, std::move(request)), drafter_index{1}, 100, start));
  if (!asked) return 0;
  const auto running = state.on_leases({grant(first_request, target_pool, asked->ticket, 12)}, false, start);
  auto wanted = last<acquire_for_drafter_command>(running);
  if (wanted && pool.is_refused) {
    state.on_leases({lease_event{first_request, wanted->pool, wanted->ticket, false, {}, 0, {}}}, false,
                    start);
    wanted =
        last<acquire_for_drafter_command>(state.on_round_done(done(running.rounds.front(), 8, 9), start));
  }
  return wanted && wanted->pool == pool_number{1} ? wanted->num_positions : 0;
}

TEST(scheduler_state_test, beam_searches_lease_no_blocks_for_drafts_of_outcomes) {
  EXPECT_GT(drafter_positions(0, ahead_mode::outcomes), drafter_positions(0, ahead_mode::off));
  EXPECT_GT(drafter_positions(2, ahead_mode::off), 0U);
  EXPECT_EQ(drafter_positions(2, ahead_mode::outcomes), drafter_positions(2, ahead_mode::off));
}

TEST(scheduler_state_test, a_drafters_lease_reaches_as_far_as_its_drafts_do) {
  EXPECT_EQ(drafter_positions(0, ahead_mode::off, {.own = 10}), drafter_positions(0, ahead_mode::off) + 7)
      << "not three levels";
}

TEST(scheduler_state_test, a_block_of_a_draft_may_lie_behind_the_last_position) {
  EXPECT_EQ(drafter_positions(0, ahead_mode::off, {.own = 16, .block = 16, .max_tokens = 2}), 8U + 2 + 16);
  EXPECT_EQ(drafter_positions(0, ahead_mode::off, {.own = 20, .block = 16, .max_tokens = 2}), 8U + 2 + 16 + 1)
      << "and one of four nodes that is none of three levels";
}

TEST(scheduler_state_test, beam_searches_lease_the_block_of_a_draft) {
  EXPECT_EQ(drafter_positions(2, ahead_mode::off, {.own = 8, .block = 8}),
            drafter_positions(2, ahead_mode::off) + 8 - 3);
  EXPECT_EQ(drafter_positions(2, ahead_mode::off, {.own = 12, .block = 8}),
            drafter_positions(2, ahead_mode::off) + 12 - 3);
}

TEST(scheduler_state_test, hypotheses_that_share_cells_lease_a_draft_and_a_block_each) {
  const auto in_turn = drafter_positions(2, ahead_mode::off, {.own = 5});
  EXPECT_EQ(drafter_positions(2, ahead_mode::off, {.own = 5, .text_begin = 0}),
            in_turn - (5 + 1) + 2 * (5 + small_options().block_size));
  EXPECT_EQ(drafter_positions(2, ahead_mode::off, {.own = 5, .is_refused = true, .text_begin = 0}),
            drafter_positions(2, ahead_mode::off, {.own = 5, .is_refused = true}))
      << "or what one needs";
  EXPECT_EQ(drafter_positions(0, ahead_mode::off, {.own = 5, .text_begin = 0}),
            drafter_positions(0, ahead_mode::off, {.own = 5}));
}

TEST(scheduler_state_test, a_drafter_that_is_refused_a_tree_asks_for_a_chain_behind_its_block) {
  EXPECT_EQ(drafter_positions(0, ahead_mode::off, {.own = 20, .block = 8, .is_refused = true}),
            drafter_positions(0, ahead_mode::off, {.own = 12, .is_refused = true}) + 8);
}

TEST(scheduler_state_test, a_drafter_that_caches_no_text_leases_one_cell_for_it) {
  EXPECT_EQ(drafter_positions(0, ahead_mode::off, {.own = 10, .caches_text = false}), 1U + 10);
  EXPECT_EQ(drafter_positions(0, ahead_mode::off, {.caches_text = false}), 1U + 3);
}

TEST(scheduler_state_test, a_drafter_that_caches_no_text_drafts_in_a_lease_shorter_than_it) {
  for (const bool caches_text : {false, true}) {
    auto options = small_options();
    options.drafters[1].caches_text = caches_text;
    scheduler_state state(options);
    const auto asked =
        last<acquire_command>(state.submit(make_request(first_request, 8, 40), drafter_index{1}, 100, start));
    const auto prompt = state.on_leases({grant(first_request, target_pool, asked->ticket, 12)}, false, start);
    const auto wanted = last<acquire_for_drafter_command>(prompt);
    ASSERT_TRUE(wanted);
    ASSERT_EQ(wanted->pool, pool_number{1});
    state.on_leases({grant(first_request, pool_number{1}, wanted->ticket, 1)}, false, start); // 4 cells
    auto next = state.on_round_done(done(prompt.rounds[0], 8, 9), start).rounds;
    ASSERT_FALSE(next.empty());
    EXPECT_EQ(next[0].items.at(0).worker_length, caches_text ? 0U : 3U);
  }
}

TEST(scheduler_state_test, a_request_of_auto_is_drafted_for_by_a_worker_that_does_not_rest) {
  auto options = small_options();
  options.drafters = {
      {"none", 0, {}, false}, {"broken", 3, {}, true}, {"sound", 3, {}, true}, {"auto", 3, {}, false}};
  scheduler_state state(options);
  const auto asked =
      last<acquire_command>(state.submit(make_request(first_request, 8, 40), drafter_index{3}, 100, start));
  auto planned = state.on_leases({grant(first_request, target_pool, asked->ticket, 12)}, false, start).rounds;
  std::uint32_t length = 8;
  std::optional<drafter_index> worker;
  for (int i = 0; i < 4 && !planned.empty(); ++i) { // the broken one first, then the other
    auto result = done(planned.front(), 1, ++length);
    if (i == 0) result.failed_drafters = {{drafter_index{1}, error{errc::internal, "it is broken"}}};
    result.items[0].advice = {drafter_index{i == 0 ? 1U : 2U}, 3};
    planned.erase(planned.begin());
    auto next = state.on_round_done(result, start).rounds;
    std::ranges::move(next, std::back_inserter(planned));
    for (const auto& plan : planned) worker = std::max(worker, plan.items[0].worker);
  }
  EXPECT_EQ(worker, drafter_index{2});
}

TEST(scheduler_state_test, a_worker_that_has_drafted_rests_as_short_as_at_first) {
  auto options = small_options();
  options.drafters = {{"none", 0, {}, false}, {"worker", 3, {}, true}};
  scheduler_state state(options);
  const auto asked =
      last<acquire_command>(state.submit(make_request(first_request, 8, 40), drafter_index{1}, 100, start));
  auto planned = state.on_leases({grant(first_request, target_pool, asked->ticket, 12)}, false, start).rounds;
  auto now = start;
  std::uint32_t length = 8;
  const auto report = [&](bool fails, std::uint32_t num_draft) {
    auto result = done(planned.front(), 1, ++length);
    result.items[0].drafter = drafter_index{1};
    result.items[0].num_draft = num_draft;
    if (fails) result.failed_drafters = {{drafter_index{1}, error{errc::internal, "it is broken"}}};
    planned.erase(planned.begin());
    auto next = state.on_round_done(result, now).rounds;
    std::ranges::move(next, std::back_inserter(planned));
  };
  const auto asks = [&] { return planned.back().items[0].drafter == drafter_index{1}; };
  for (int failure = 0; failure < 3; ++failure) {
    report(true, 0);
    ASSERT_FALSE(asks());
    now += std::chrono::milliseconds(1100); // the first rest is a second
    report(false, 0), report(false, 0);
    ASSERT_TRUE(asks()) << "failure " << failure;
    report(false, 2);
    report(false, 2);
  }
}

} // namespace
} // namespace paceline::scheduling
