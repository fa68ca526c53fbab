#include "tests/runtime/scheduling/played_scheduler.hpp"

#include <gtest/gtest.h>

#include <deque>

namespace paceline::scheduling {
namespace {

using namespace test_support;

constexpr std::uint32_t draft_length = 4;
constexpr std::uint32_t prompt_length = 8;

/// One request with an in-line drafter whose drafts are all rejected: every round commits one token. Two
/// rounds are always in flight.
class rejected_drafts : public testing::Test {
 protected:
  static scheduler_options options() {
    auto o = small_options();
    o.context_length = 256;
    o.num_blocks = 64;
    o.drafters = {{"none", 0, {}, false}, {"ngram", draft_length, {}, false}};
    return o;
  }

  void begin(std::uint64_t credit) {
    const auto asked = last<acquire_command>(
        state_.submit(make_request(first_request, prompt_length, 48), drafter_index{1}, credit, start));
    ASSERT_TRUE(asked);
    take(state_.on_leases(
        {grant(first_request, target_pool, asked->ticket, blocks_for(asked->num_positions))}, false, start));
    report();
  }
  /// The oldest round in flight returns.
  void report() {
    ASSERT_FALSE(in_flight_.empty());
    const auto plan = std::move(in_flight_.front());
    in_flight_.pop_front();
    const auto& item = plan.items.at(0);
    auto result = done(plan, item.max_rows + item.draft_length, ++length_);
    result.items[0].num_draft = item.draft_length;
    result.items[0].drafter = item.drafter;
    take(state_.on_round_done(result, start));
    ASSERT_EQ(state_.check_invariants(), "");
  }
  /// Grants every requested lease.
  void take(decisions d) {
    for (auto& plan : d.rounds) in_flight_.push_back(std::move(plan));
    if (const auto back = last<rollback_command>(d)) num_leased_ = back->num_positions;
    const auto asked = last<reserve_command>(d);
    if (!asked) return;
    num_leased_ = asked->num_positions;
    take(state_.on_leases(
        {grant(first_request, target_pool, asked->ticket, blocks_for(asked->num_positions))}, false, start));
  }
  static std::uint32_t blocks_for(std::uint32_t positions) { return (positions + 3) / 4; }
  std::uint32_t num_output() const { return length_ - prompt_length; }

  scheduler_state state_{options()};
  std::deque<round_plan> in_flight_;
  std::uint32_t length_ = prompt_length;
  std::uint32_t num_leased_ = 0;
};

TEST_F(rejected_drafts, spend_no_credit) {
  constexpr std::uint32_t window = 3 * (draft_length + 1);
  begin(window);
  while (num_output() < 30) {
    take(state_.grant(first_request, window + num_output(), start)); // the client reads continuously
    ASSERT_EQ(in_flight_.size(), 2U) << "after " << num_output();
    for (const auto& plan : in_flight_) EXPECT_EQ(plan.items.at(0).draft_length, draft_length);
    report();
  }
}

TEST_F(rejected_drafts, commit_no_more_than_the_credit) {
  begin(12);
  std::uint32_t most = num_output();
  while (!in_flight_.empty()) {
    std::uint32_t possible = num_output();
    for (const auto& plan : in_flight_) possible += 1 + plan.items.at(0).draft_length;
    most = std::max(most, possible);
    report();
  }
  EXPECT_EQ(most, 12U) << "had the drafts been right";
  EXPECT_EQ(num_output(), 12U) << "then it stands still";
}

TEST_F(rejected_drafts, go_on_with_the_credit_of_a_request_that_is_submitted_again) {
  begin(12);
  while (!in_flight_.empty()) report();
  ASSERT_EQ(num_output(), 12U);
  // A grant was lost with the previous scheduler; the session submits again, with all credit it has granted.
  take(state_.submit(make_request(first_request, prompt_length, 48), drafter_index{1}, 20, start));
  while (!in_flight_.empty()) report();
  EXPECT_EQ(num_output(), 20U);
}

TEST(stream_credit, a_request_without_credit_computes_its_prompt_and_waits) {
  scheduler_state state(small_options());
  const auto asked =
      last<acquire_command>(state.submit(make_request(first_request, 8, 10), plain_decoding, 0, start));
  ASSERT_TRUE(asked);
  const auto prompt = state.on_leases({grant(first_request, target_pool, asked->ticket, 3)}, false, start);
  ASSERT_EQ(prompt.rounds.size(), 1U);
  EXPECT_EQ(prompt.rounds[0].items.at(0).max_rows, 7U) << "the eighth row decides a token";
  const auto granted = state.grant(first_request, 1, start);
  ASSERT_EQ(granted.rounds.size(), 1U);
  EXPECT_EQ(granted.rounds[0].items.at(0).max_rows, 1U);
  EXPECT_EQ(state.check_invariants(), "");
}

class scored_prompt : public testing::Test {
 protected:
  static scheduler_options options() {
    auto o = small_options();
    o.max_running = 1;
    return o;
  }
  /// Rows of the rounds in flight, which return.
  std::uint32_t rows() {
    std::uint32_t sum = 0;
    for (; !play.in_flight.empty(); play.report())
      for (const auto& item : play.in_flight.front().items) sum += item.max_rows;
    return sum;
  }
  void SetUp() override { play.scores_prompts = true; }

  played_scheduler play{options()};
};

/// The request is preempted while its round is lost. Its client has seen no score and grants no more credit.
TEST(stream_credit, scores_of_a_round_that_never_ran_are_not_spent) {
  auto options = small_options();
  options.max_running = 2;
  played_scheduler play(options);
  play.submit(100);
  play.report();
  play.scores_prompts = true;
  const auto scored = play.submit(3);
  play.admitted_since();
  play.full = true;
  const auto has_scored = [&](const round_plan& plan) {
    return std::ranges::any_of(plan.items, [&](const auto& item) { return item.request.id() == scored; });
  };
  while (std::ranges::none_of(play.in_flight, has_scored)) play.report();
  for (int i = 0; i < 40 && play.state.counters().num_preemptions == 0; ++i) {
    if (has_scored(play.in_flight.front())) { // nothing of it is ever reported
      play.in_flight.clear();
      play.take(play.state.on_rounds_lost({}, play.now));
    } else {
      play.report();
    }
  }
  ASSERT_EQ(play.released, std::vector{scored});
  play.full = false;
  play.report_all();
  EXPECT_EQ(std::ranges::count(play.admitted_since(), scored), 1) << "it has credit for three scores";
}

TEST_F(scored_prompt, spends_credit_position_by_position) {
  const auto id = play.submit(3);
  EXPECT_EQ(rows(), 3U);
  play.grant(id, 7);
  EXPECT_EQ(rows(), 4U) << "seven scores; the eighth row decides a token";
  play.grant(id, 8);
  EXPECT_EQ(rows(), 1U);
  play.grant(id, 10);
  EXPECT_EQ(rows(), 2U) << "a token each";
}

TEST_F(scored_prompt, is_read_as_far_as_the_client_takes_it_when_nothing_is_generated) {
  const auto id = play.submit(3, 0);
  EXPECT_EQ(rows(), 3U);
  play.grant(id, 7);
  EXPECT_EQ(rows(), 5U) << "the last row reports nothing";
}

TEST_F(scored_prompt, is_paid_for_once) {
  const auto id = play.submit(3);
  EXPECT_EQ(rows(), 3U);
  play.submit(1000, 1);
  play.wait(scheduler_state::max_stall);
  ASSERT_EQ(play.state.counters().num_preemptions, 1U);
  rows(); // the other one ends
  play.grant(id, 5);
  EXPECT_EQ(rows(), 5U) << "three of them again";
  play.grant(id, 8);
  EXPECT_EQ(rows(), 3U);
}

TEST_F(rejected_drafts, leave_the_lease_where_the_text_is) {
  begin(1000);
  while (num_output() < 30) {
    report();
    // One round in flight, this round's growth, the draft of the next one.
    EXPECT_LE(num_leased_, length_ + 4 * (draft_length + 1));
  }
}

} // namespace
} // namespace paceline::scheduling
