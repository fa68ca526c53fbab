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

} // namespace
} // namespace paceline::speculation
