#include "tests/runtime/scheduling/played_scheduler.hpp"

#include <gtest/gtest.h>

namespace paceline::scheduling {
namespace {

using namespace test_support;

constexpr auto stall = scheduler_state::max_stall;
constexpr auto moment = std::chrono::milliseconds(50);
constexpr std::uint64_t plenty = 1000;

played_scheduler scheduler_for(std::uint32_t max_running) {
  auto options = small_options();
  options.num_blocks = 1000;
  options.max_running = max_running;
  options.drafters = {{"none", 0, {}, false}};
  return played_scheduler(std::move(options));
}

using requests = std::vector<request_id>;

TEST(scheduler_queue, a_stream_without_credit_gives_its_slot_to_one_that_waits) {
  auto play = scheduler_for(1);
  const auto slow = play.submit(2);
  play.report_all();
  const auto next = play.submit(plenty);
  EXPECT_EQ(play.admitted_since(), requests{slow});
  play.wait(stall - moment);
  EXPECT_TRUE(play.released.empty()) << "its client may be about to read on";
  play.wait(moment);
  EXPECT_EQ(play.released, requests{slow});
  EXPECT_EQ(play.admitted_since(), requests{next});
  EXPECT_FALSE(play.in_flight.empty());
  EXPECT_EQ(play.state.counters().num_preemptions, 1U);
  EXPECT_EQ(play.state.check_invariants(), "");
}

TEST(scheduler_queue, a_stream_without_credit_keeps_a_slot_that_nobody_else_can_use) {
  auto play = scheduler_for(1);
  const auto slow = play.submit(2);
  play.report_all();
  const auto also_slow = play.submit(0);
  play.wait(10 * stall);
  EXPECT_TRUE(play.released.empty()) << "two without credit would take turns for nothing";
  play.grant(also_slow, plenty);
  EXPECT_EQ(play.released, requests{slow}) << "it has stalled long enough";
  EXPECT_EQ(play.admitted_since(), (requests{slow, also_slow}));
}

TEST(scheduler_queue, a_stream_whose_client_reads_on_keeps_its_slot) {
  auto play = scheduler_for(1);
  const auto slow = play.submit(2);
  play.report_all();
  play.submit(plenty);
  for (std::uint64_t credit = 3; credit < 20; ++credit) {
    play.wait(stall - moment);
    play.grant(slow, credit);
    play.report_all();
  }
  EXPECT_TRUE(play.released.empty());
}

TEST(scheduler_queue, who_gave_up_its_slot_comes_back_with_credit_and_at_its_turn) {
  auto play = scheduler_for(1);
  const auto slow = play.submit(2);
  play.report_all();
  const auto second = play.submit(plenty, 4);
  const auto third = play.submit(plenty, 4);
  play.wait(stall);
  play.report_all(); // the second and the third end
  play.wait(stall);
  EXPECT_EQ(play.admitted_since(), (requests{slow, second, third})) << "a free slot is of no use to it";
  const auto fourth = play.submit(plenty, 4);
  const auto fifth = play.submit(plenty, 4);
  play.grant(slow, plenty);
  play.report_all();
  EXPECT_EQ(play.admitted_since(), (requests{fourth, slow, fifth})) << "it waited in the queue";
  EXPECT_FALSE(play.state.active());
}

TEST(scheduler_queue, the_one_that_stalled_longest_goes_first) {
  auto play = scheduler_for(2);
  const auto first = play.submit(3);
  const auto second = play.submit(2);
  play.report_all();
  play.wait(moment);
  play.grant(first, 4);
  play.report_all();
  play.wait(stall);
  play.submit(plenty);
  EXPECT_EQ(play.released, requests{second});
  play.submit(plenty);
  EXPECT_EQ(play.released, (requests{second, first}));
}

TEST(scheduler_queue, a_stream_without_credit_gives_up_blocks_that_others_wait_for) {
  auto play = scheduler_for(8);
  const auto slow = play.submit(2);
  play.report_all();
  play.full = true;
  play.submit(plenty);
  EXPECT_EQ(play.state.num_running(), 1U);
  play.wait(stall);
  EXPECT_EQ(play.released, requests{slow});
}

TEST(scheduler_queue, a_request_without_credit_lets_others_by) {
  auto play = scheduler_for(1);
  const auto first = play.submit(plenty, 4);
  const auto silent = play.submit(0, 4);
  const auto last = play.submit(plenty, 4);
  play.report_all();
  EXPECT_EQ(play.admitted_since(), (requests{first, last, silent}))
      << "it reads its prompt when nobody else waits";
  play.grant(silent, plenty);
  play.report_all();
  EXPECT_FALSE(play.state.active());
}

TEST(scheduler_queue, a_prompt_whose_scores_nobody_takes_gets_no_slot) {
  auto play = scheduler_for(1);
  play.scores_prompts = true;
  const auto silent = play.submit(0, 4);
  EXPECT_EQ(play.admitted_since(), requests{}) << "there is no row that it may compute";
  play.grant(silent, plenty);
  EXPECT_EQ(play.admitted_since(), requests{silent});
}

TEST(scheduler_queue, one_shortage_of_blocks_costs_one_stream_its_place_at_a_time) {
  auto play = scheduler_for(8);
  const auto slow = play.submit(2), slower = play.submit(2);
  play.report_all();
  play.full = true;
  play.submit(plenty);
  play.wait(stall);
  EXPECT_EQ(play.released, requests{slow});
  play.grant(slow, 2); // it has enough credit already: nothing is reported about blocks
  EXPECT_EQ(play.released, requests{slow}) << "whether its blocks suffice is not known yet";
  play.wait(moment);
  EXPECT_EQ(play.released, (requests{slow, slower}));
}

TEST(scheduler_queue, owners_take_turns) {
  auto play = scheduler_for(1);
  play.submit(plenty, 4, "many");
  requests many, few;
  for (int i = 0; i < 5; ++i) many.push_back(play.submit(plenty, 4, "many"));
  for (int i = 0; i < 2; ++i) few.push_back(play.submit(plenty, 4, "few"));
  const auto one = play.submit(plenty, 4, "one");
  play.admitted_since();
  play.report_all();
  EXPECT_EQ(play.admitted_since(),
            (requests{many[0], few[0], one, many[1], few[1], many[2], many[3], many[4]}));
}

TEST(scheduler_queue, an_owner_whose_requests_come_one_by_one_waits_for_one_of_another) {
  auto play = scheduler_for(1);
  for (int i = 0; i < 8; ++i) play.submit(plenty, 4, "many");
  for (int i = 0; i < 4; ++i) {
    const auto own = play.submit(plenty, 4, "few");
    play.admitted_since();
    std::uint32_t num_others = 0;
    for (auto seen = requests{}; std::ranges::find(seen, own) == seen.end(); ++num_others) {
      while (seen.empty()) {
        play.report();
        seen = play.admitted_since();
      }
      if (seen.front() != own) seen.clear();
    }
    EXPECT_LE(num_others, 2U);
  }
}

TEST(scheduler_queue, an_owners_own_requests_keep_their_order) {
  auto play = scheduler_for(1);
  play.submit(plenty, 4, "a");
  requests b{play.submit(plenty, 4, "b")};
  const auto gone = play.submit(plenty, 4, "a");
  for (int i = 0; i < 2; ++i) b.push_back(play.submit(plenty, 4, "b"));
  const auto early = play.submit(plenty, 4, "a"); // its owner's second
  play.cancel(gone);
  const auto late = play.submit(plenty, 4, "a");
  play.admitted_since();
  play.report_all();
  const auto order = play.admitted_since();
  EXPECT_LT(std::ranges::find(order, early), std::ranges::find(order, late));
  EXPECT_EQ(order.size(), 5U);
}

TEST(scheduler_queue, priority_goes_before_turns) {
  auto play = scheduler_for(1);
  play.submit(plenty, 4, "a");
  const auto late = play.submit(plenty, 4, "b", 1);
  const auto first = play.submit(plenty, 4, "a");
  const auto second = play.submit(plenty, 4, "a");
  play.admitted_since();
  play.report_all();
  EXPECT_EQ(play.admitted_since(), (requests{first, second, late}));
}

TEST(scheduler_queue, leases_that_come_together_make_one_round) {
  auto play = scheduler_for(2);
  play.submit(plenty);
  play.submit(plenty);
  play.answers_at_once = false;
  play.report_all();
  ASSERT_EQ(play.unanswered.size(), 2U) << "both stand still";
  const auto planned = play.answer_all();
  ASSERT_FALSE(planned.rounds.empty());
  EXPECT_EQ(planned.rounds[0].items.size(), 2U) << "the second is not left out of the first one's round";
}

} // namespace
} // namespace paceline::scheduling
