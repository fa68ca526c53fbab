// The controller and drafts that carry probes, which are computed beside the nodes and commit nothing.
#include "runtime/speculation/control/draft_controller.hpp"

#include "tests/runtime/speculation/control/cost_curves.hpp"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace paceline::speculation {
namespace {

constexpr std::uint32_t num_levels = 4;
constexpr std::uint32_t a_window = 60;

/// The text counts up, and drafts continue it.
std::vector<token_id> text(std::size_t length) {
  std::vector<token_id> tokens;
  for (std::size_t i = 0; i < length; ++i) tokens.emplace_back(static_cast<std::int32_t>(i));
  return tokens;
}

draft right_draft(std::size_t position, std::uint32_t num_probes) {
  draft made{.base_length = static_cast<std::uint32_t>(position)};
  std::int32_t row = token_tree::root;
  for (std::uint32_t i = 0; i < num_levels; ++i)
    row = made.tree.add(token_id{static_cast<std::int32_t>(position + i)}, row);
  for (std::uint32_t i = 0; i < num_probes; ++i) made.add_probe(token_id{-1}, token_tree::root);
  return made;
}

/// The choice among drafts that have always been right, with these numbers of probes, if a row costs `slope`
/// passes.
draft_controller::request_choice chosen(double slope, const std::vector<std::uint32_t>& num_probes) {
  draft_controller controller(static_cast<std::uint32_t>(num_probes.size()));
  std::mt19937_64 noise(1);
  controller.calibrate(timed_at_load([=](std::uint32_t rows) { return 1 + slope * (rows - 1); }, 1e6, noise));
  const auto tokens = text(200);
  draft_history history;
  std::vector<draft_controller::request_choice> one(1);
  for (std::size_t at = 0; at <= 100; at += 1 + num_levels) {
    controller.learn(history, std::span(tokens).first(at));
    one = std::vector<draft_controller::request_choice>(1);
    one[0].history = &history;
    for (const auto probes : num_probes) one[0].proposals.push_back(right_draft(at, at < 100 ? 0 : probes));
    controller.choose(one, {});
  }
  return std::move(one[0]);
}

TEST(probes, are_computed_where_the_draft_is_worth_their_rows) {
  const auto one = chosen(0.005, {a_window});
  EXPECT_EQ(one.chosen.tree.size(), num_levels);
  EXPECT_EQ(one.chosen.probes.size(), a_window);
  EXPECT_NEAR(one.options.at(0).cost, 1 + 0.005 * (num_levels + a_window), 0.1);
}

TEST(probes, are_left_out_of_a_draft_where_rows_are_expensive) {
  const auto without = chosen(0.1, {0});
  EXPECT_GT(without.chosen.tree.size(), 0U);
  const auto one = chosen(0.1, {a_window});
  EXPECT_EQ(one.chosen.tree.size(), without.chosen.tree.size());
  EXPECT_TRUE(one.chosen.probes.empty()) << "five tokens in seven passes";
}

TEST(probes, make_the_other_of_two_equal_drafts_the_better_one) {
  EXPECT_EQ(chosen(0.02, {a_window, 0}).candidate, 1U);
  EXPECT_EQ(chosen(0.02, {0, a_window}).candidate, 0U);
}

/// How often two candidates that never make a draft have their probes chosen, in `num_rounds` rounds of a
/// batch.
struct forced {
  std::uint32_t first = 0, second = 0;
  std::uint32_t most_in_a_round = 0;
  double time = 0; ///< of the probes, in passes
};
forced forced_probes(double slope, std::uint32_t num_requests, std::uint32_t num_rounds) {
  draft_controller controller(2);
  std::mt19937_64 noise(1);
  const auto cost = [=](std::uint32_t rows) { return 1 + slope * (rows - 1); };
  controller.calibrate(timed_at_load(cost, 1e6, noise));
  std::vector<draft_history> histories(num_requests);
  std::vector<token_id> tokens;
  forced done;
  for (std::uint32_t round = 0; round < num_rounds; ++round) {
    std::vector<draft_controller::request_choice> all(num_requests);
    for (std::uint32_t r = 0; r < num_requests; ++r) {
      controller.learn(histories[r], tokens);
      all[r].history = &histories[r];
      for (const std::uint32_t probes : {60U, 30U}) {
        all[r].proposals.push_back(draft{.base_length = round});
        for (std::uint32_t i = 0; i < probes; ++i)
          all[r].proposals.back().add_probe(token_id{-1}, token_tree::root);
      }
    }
    controller.choose(all, {num_requests, num_requests});
    std::uint32_t here = 0, num_rows = num_requests;
    for (const auto& one : all) {
      if (one.chosen.num_rows() == 0) continue;
      ++here, num_rows += one.chosen.num_rows();
      ++(one.candidate == 0 ? done.first : done.second);
    }
    done.most_in_a_round = std::max(done.most_in_a_round, here);
    done.time += (cost(num_rows) - cost(num_requests)) / cost(num_requests);
    controller.observe(num_rows, 1e6 * cost(num_rows));
    tokens.push_back(token_id{static_cast<std::int32_t>(round)});
  }
  return done;
}

TEST(probes, that_have_to_be_tried_take_a_small_share_of_the_time_and_their_turns) {
  for (const std::uint32_t num_requests : {1U, 8U}) {
    constexpr std::uint32_t num_rounds = 20'000;
    const auto dear = forced_probes(0.43, num_requests, num_rounds);
    EXPECT_GT(dear.first, 0U) << num_requests;
    EXPECT_GT(dear.second, dear.first) << "half as many rows, " << num_requests;
    EXPECT_LE(dear.most_in_a_round, 1U);
    EXPECT_LT(dear.time, 0.025 * num_rounds) << "a hundredth for each, " << num_requests;
    const auto cheap = forced_probes(0.002, num_requests, num_rounds);
    EXPECT_LE(cheap.first, num_rounds * num_requests / 256 + 1);
    EXPECT_GE(cheap.first, num_rounds / 512);
  }
}

} // namespace
} // namespace paceline::speculation
