// Which in-line candidates are called in a round, and what is reported about their drafts.
#include "runtime/speculation/control/draft_controller.hpp"

#include "tests/runtime/speculation/control/cost_curves.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace paceline::speculation {
namespace {

constexpr double pass_ns = 1e6; ///< over one row
double cheap_rows(std::uint32_t rows) { return 1 + 0.05 * (rows - 1); }
double expensive_rows(std::uint32_t rows) { return 1 + 0.43 * (rows - 1); }

/// The text counts up. A draft continues it, or has token -1.
std::vector<token_id> text(std::size_t length) {
  std::vector<token_id> tokens;
  for (std::size_t i = 0; i < length; ++i) tokens.emplace_back(static_cast<std::int32_t>(i));
  return tokens;
}

draft chain(std::size_t position, std::uint32_t num_levels, bool right) {
  draft made{.base_length = static_cast<std::uint32_t>(position)};
  std::int32_t node = token_tree::root;
  for (std::uint32_t i = 0; i < num_levels; ++i) {
    const auto next = right ? static_cast<std::int32_t>(position + i) : -1;
    node = made.tree.add(token_id{next}, node);
    made.signals.push_back(0);
  }
  return made;
}

draft_controller calibrated(double (*cost)(std::uint32_t)) {
  draft_controller controller(1);
  std::mt19937_64 noise(1);
  controller.calibrate(timed_at_load(cost, pass_ns, noise));
  return controller;
}

/// In how many of a hundred rounds a candidate is called. A round has `num_requests` requests. The
/// candidate's drafts are `right` or always wrong, and a call takes `share` of a pass over one row for each
/// request.
std::uint32_t num_calls(double share, bool right, double (*cost)(std::uint32_t),
                        std::uint32_t num_requests = 1) {
  auto controller = calibrated(cost);
  const auto tokens = text(1000);
  draft_history history;
  std::uint32_t count = 0;
  std::size_t at = 0;
  for (std::uint32_t round = 0; round < 100; ++round) {
    controller.learn(history, std::span(tokens).first(at));
    std::vector<draft_controller::request_choice> one(1);
    one[0].history = &history;
    one[0].proposals.resize(1);
    if (controller.begin_call(history, 0, num_requests)) {
      ++count;
      one[0].proposals[0] = chain(at, 6, right);
      controller.observe_proposing(0, 1, share * pass_ns);
    }
    controller.choose(one, {});
    at += 1 + (right ? one[0].chosen.tree.size() : 0);
  }
  return count;
}

TEST(draft_calls, are_made_the_more_seldom_in_vain_the_more_they_cost) {
  EXPECT_EQ(num_calls(0.0005, false, expensive_rows), 100U);
  EXPECT_LT(num_calls(0.005, false, expensive_rows), 45U);
  EXPECT_LT(num_calls(0.05, false, expensive_rows), 15U);
  EXPECT_GE(num_calls(0.05, false, expensive_rows), 5U) << "texts change";
}

TEST(draft_calls, cost_what_they_take_of_the_pass_of_all_requests) {
  EXPECT_LT(num_calls(0.0005, false, cheap_rows, 64), 30U) << "64 calls, and a pass of 4.15 times the time";
}

TEST(draft_calls, are_made_in_every_round_while_they_pay) {
  EXPECT_EQ(num_calls(0.05, true, cheap_rows), 100U);
}

TEST(draft_calls, are_in_vain_where_they_take_more_than_their_drafts_gain) {
  EXPECT_LT(num_calls(9.0, true, cheap_rows), 15U);
}

/// Each of 32 requests has a right draft. A call for all of them takes 8 % of a pass, and the draft of each
/// request gains that request much more than its own call takes.
TEST(draft_calls, of_a_batch_are_judged_by_what_each_request_gains) {
  constexpr std::uint32_t num_requests = 32;
  auto controller = calibrated([](std::uint32_t rows) { return 1 + 0.001 * (rows - 1); });
  std::vector<draft_history> histories(num_requests);
  const auto tokens = text(1000);
  std::uint32_t count = 0;
  for (std::size_t round = 0; round < 60; ++round) {
    std::vector<draft_controller::request_choice> all(num_requests);
    for (std::uint32_t r = 0; r < num_requests; ++r) {
      controller.learn(histories[r], std::span(tokens).first(3 * round));
      all[r].history = &histories[r];
      all[r].proposals.resize(1);
      if (!controller.begin_call(histories[r], 0, num_requests)) continue;
      ++count;
      all[r].proposals[0] = chain(3 * round, 2, true);
    }
    controller.observe_proposing(0, num_requests, 0.08 * pass_ns);
    controller.choose(all, {num_requests, num_requests});
  }
  EXPECT_EQ(count, 60 * num_requests);
}

TEST(draft_calls, of_a_drafter_that_reads_the_text_are_not_in_vain) {
  auto controller = calibrated(expensive_rows);
  const auto tokens = text(60);
  draft_history history;
  for (std::size_t at = 0; at < tokens.size(); ++at) {
    controller.learn(history, std::span(tokens).first(at));
    std::vector<draft_controller::request_choice> one(1);
    one[0].history = &history;
    one[0].proposals.resize(1);
    ASSERT_TRUE(controller.begin_call(history, 0, 1)) << at;
    controller.observe_proposing(0, 1, 0.5 * pass_ns);
    one[0].proposals[0].catching_up = true;
    controller.choose(one, {});
  }
}

TEST(draft_calls, are_told_with_what_they_promised) {
  draft_controller controller(2);
  std::mt19937_64 noise(1);
  controller.calibrate(timed_at_load(cheap_rows, pass_ns, noise));
  draft_history history;
  std::vector<draft_controller::request_choice> one(1);
  one[0].history = &history;
  one[0].proposals = {draft{}, chain(0, 6, true)};
  controller.choose(one, {});
  ASSERT_EQ(one[0].options.size(), 1U) << "the first one said nothing";
  EXPECT_EQ(one[0].options[0].candidate, 1U);
  EXPECT_GT(one[0].options[0].tokens, 1.0);
  EXPECT_NEAR(one[0].options[0].cost, controller.cost().ratio(1 + one[0].options[0].num_nodes), 1e-9);
}

/// The report after `num_rounds` rounds of one request, whose only candidate proposes in every other round.
draft_account account_of(double (*cost)(std::uint32_t), bool right, std::uint32_t num_rounds) {
  auto controller = calibrated(cost);
  const auto tokens = text(1000);
  draft_history history;
  std::size_t at = 0;
  for (std::uint32_t round = 0; round < num_rounds; ++round) {
    controller.learn(history, std::span(tokens).first(at));
    std::vector<draft_controller::request_choice> one(1);
    one[0].history = &history;
    one[0].proposals.resize(1);
    if (round % 2 == 0) one[0].proposals[0] = chain(at, 6, right);
    controller.choose(one, {});
    at += 1 + (right ? one[0].chosen.tree.size() : 0);
  }
  return history.account();
}

TEST(draft_calls, are_added_up_for_the_report) {
  const auto right = account_of(cheap_rows, true, 100);
  ASSERT_EQ(right.candidates.size(), 1U);
  EXPECT_EQ(right.num_rounds, 100U);
  EXPECT_EQ(right.num_without_proposal, 50U);
  const auto& of = right.candidates[0];
  EXPECT_EQ(of.num_proposals, 50U);
  EXPECT_GT(of.num_chosen, 45U);
  EXPECT_EQ(of.num_chosen + right.num_plain_to_measure, 50U)
      << "a draft that was worth it is used or set aside";
  EXPECT_GT(of.tokens / 50, 4.0);
  EXPECT_LE(of.tokens / 50, 7.0) << "six right tokens, and one after them";
  EXPECT_NEAR(of.time / 50, 1.3, 0.1) << "six rows beside one, timed with noise";
}

TEST(draft_calls, that_were_not_worth_their_rows_are_reported_with_what_a_token_promised) {
  const auto wrong = account_of(expensive_rows, false, 100);
  const auto& of = wrong.candidates.at(0);
  EXPECT_EQ(of.num_proposals, 50U);
  EXPECT_LT(of.num_chosen, 5U);
  EXPECT_GT(of.tokens / 50, 1.0);
  EXPECT_LT(of.tokens / 50, 1.2);
  EXPECT_GT(of.time / 50, 1.4) << "a row costs 0.43 of a pass";
}

/// Plain rounds may cost a share of the gain of drafting: half a percent.
TEST(draft_calls, are_left_unused_now_and_then_to_measure_plain_decoding) {
  auto controller = calibrated(cheap_rows);
  const auto tokens = text(9000);
  draft_history history;
  std::uint32_t num_plain = 0, num_rounds = 0;
  for (std::size_t at = 0; at + 8 < tokens.size(); ++num_rounds) {
    controller.learn(history, std::span(tokens).first(at));
    std::vector<draft_controller::request_choice> one(1);
    one[0].history = &history;
    one[0].proposals = {chain(at, 2, at % 2 == 0)};
    controller.choose(one, {});
    num_plain += one[0].plain_to_measure ? 1 : 0;
    EXPECT_EQ(one[0].plain_to_measure && !one[0].chosen.tree.empty(), false);
    controller.observe(1 + one[0].chosen.tree.size(), pass_ns * cheap_rows(1 + one[0].chosen.tree.size()));
    at += 1 + (at % 2 == 0 ? one[0].chosen.tree.size() : 0);
  }
  EXPECT_GT(num_plain, num_rounds / 400);
  EXPECT_LT(num_plain, num_rounds / 20);
}

} // namespace
} // namespace paceline::speculation
