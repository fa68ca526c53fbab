// The controller with drafts whose tokens are drawn, under a rule that compares probabilities, in virtual
// time.
#include "runtime/speculation/control/draft_controller.hpp"

#include "tests/runtime/speculation/control/cost_curves.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace paceline::speculation::draft_controller_drawn_test {
namespace {

constexpr double pass_ns = 1e6; ///< over one row
constexpr std::uint32_t most_levels = 8;

draft drawn_chain(std::size_t position, std::uint32_t num_levels) {
  draft made{.base_length = static_cast<std::uint32_t>(position)};
  made.plan = {num_levels, num_levels};
  std::int32_t node = token_tree::root;
  for (std::uint32_t i = 0; i < num_levels; ++i) {
    node = made.tree.add(token_id{1}, node);
    made.probs.push_back({{token_id{1}}, {1.0F}});
  }
  return made;
}

/// A drafter that draws its tokens. A verified one is accepted with probability `acceptance`. The target's
/// token in place of one that is not verified is drawn independently; it is the same one with probability
/// `coincidence`.
struct drafting {
  double acceptance = 1;
  double coincidence = 0.1;
  double step = 0;                   ///< passes for each level; the drafter is a worker if it is positive
  std::uint32_t num_hard_tokens = 0; ///< of the text, at its begin: drafts are rejected there
};

struct outcome {
  double time = 0; ///< in passes over one row, after the hard tokens
  std::uint32_t num_tokens = 0;
  std::uint32_t num_levels = 0; ///< verified in the last hundred rounds
};

/// One request after another with `tokens_each` tokens, until there are `num_tokens`.
outcome run(const drafting& by, double slope, std::uint32_t num_tokens, std::uint32_t tokens_each) {
  const bool is_worker = by.step > 0;
  draft_controller controller(std::vector<acceptance_table::prior>(1), is_worker ? 0 : 1);
  std::mt19937_64 random(1);
  const auto cost = [=](std::uint32_t rows) { return 1 + slope * (rows - 1); };
  controller.calibrate(timed_at_load(cost, pass_ns, random));
  std::bernoulli_distribution accepted(by.acceptance), same(by.coincidence);
  outcome done;
  std::vector<std::uint32_t> levels;
  while (done.num_tokens < num_tokens) {
    draft_history history(true);
    std::vector<token_id> tokens;
    std::uint32_t asked = is_worker ? 0 : most_levels;
    while (tokens.size() < tokens_each) {
      controller.learn(history, tokens);
      std::vector<draft_controller::request_choice> one(1);
      one[0].history = &history;
      one[0].proposals.push_back(asked > 0 ? drawn_chain(tokens.size(), asked) : draft{});
      controller.choose(one, {});
      const auto num_levels = one[0].chosen.tree.size();
      const double time = cost(1 + num_levels);
      controller.observe(1 + num_levels, time * pass_ns);
      const bool is_hard = done.num_tokens + tokens.size() < by.num_hard_tokens;
      done.time += is_hard ? 0 : time + asked * by.step;
      if (asked > 0 && is_worker) controller.observe_drafting(0, by.step * pass_ns);
      std::uint32_t right = 0;
      while (right < num_levels && !is_hard && accepted(random)) ++right;
      tokens.insert(tokens.end(), right, token_id{1});
      // The token after the last accepted one: not the draft's if that was rejected, else an independent one.
      tokens.push_back(right < num_levels || !same(random) ? token_id{2} : token_id{1});
      levels.push_back(num_levels);
      if (!is_worker) continue;
      draft_history* const of[] = {&history};
      const auto advice = controller.advise(of, 0, most_levels);
      asked = advice.empty() ? 0 : advice[0].length;
    }
    done.num_tokens += static_cast<std::uint32_t>(tokens.size());
  }
  for (std::size_t i = levels.size() - 100; i < levels.size(); ++i) done.num_levels += levels[i];
  return done;
}

/// Draft and target have the same flat distribution, so every verified token is accepted, but two independent
/// draws are rarely the same.
TEST(drawn_drafts, of_a_worker_are_not_judged_by_coincidence) {
  const auto done = run({.acceptance = 1, .coincidence = 0.1, .step = 0.02}, 0.5, 4000, 200);
  EXPECT_LT(done.time, 0.75 * done.num_tokens) << "1 + 1 tokens for 1.52 passes, more for longer drafts";
}

TEST(drawn_drafts, of_an_in_line_drafter_are_not_judged_by_coincidence) {
  const auto done = run({.acceptance = 1, .coincidence = 0.1}, 0.5, 4000, 200);
  EXPECT_LT(done.time, 0.75 * done.num_tokens);
}

/// In the hard part no level is worth its rows. If unverified levels counted, the few that are verified
/// nevertheless would not outweigh them later.
TEST(drawn_drafts, are_found_to_be_right_after_text_for_which_they_were_wrong) {
  for (const double step : {0.0, 0.02}) {
    constexpr std::uint32_t num_hard = 4000, num_tokens = 12'000;
    const auto done = run({.acceptance = 1, .coincidence = 0.1, .step = step, .num_hard_tokens = num_hard},
                          0.5, num_tokens, 400);
    EXPECT_LT(done.time, 0.8 * (num_tokens - num_hard)) << step;
  }
}

TEST(drawn_drafts, grow_as_long_as_their_tokens_are_accepted) {
  EXPECT_GT(run({.acceptance = 0.97, .coincidence = 0.05}, 0.05, 4000, 400).num_levels, 600U);
  EXPECT_GT(run({.acceptance = 0.97, .coincidence = 0.05, .step = 0.02}, 0.05, 4000, 400).num_levels, 600U);
}

TEST(drawn_drafts, that_are_rejected_cost_two_percent_at_most) {
  for (const double step : {0.0, 0.02, 0.5}) {
    const auto done = run({.acceptance = 0.02, .coincidence = 0.02, .step = step}, 0.43, 20'000, 400);
    EXPECT_LT(done.time, 1.02 * done.num_tokens) << step;
  }
}

/// Rows are so cheap that the first drafter may be tried in every round. The second one, which is better, is
/// tried in its turn.
TEST(drawn_drafts, of_several_drafters_are_tried_in_turn) {
  draft_controller controller(2);
  std::mt19937_64 random(1);
  const auto cost = [](std::uint32_t rows) { return 1 + 0.002 * (rows - 1); };
  controller.calibrate(timed_at_load(cost, pass_ns, random));
  draft_history history(true);
  std::vector<token_id> tokens;
  std::uint32_t num_second = 0;
  for (int round = 0; round < 600; ++round) {
    controller.learn(history, tokens);
    std::vector<draft_controller::request_choice> one(1);
    one[0].history = &history;
    one[0].proposals = {drawn_chain(tokens.size(), 4), drawn_chain(tokens.size(), 4)};
    controller.choose(one, {});
    const auto num_levels = one[0].chosen.tree.size();
    controller.observe(1 + num_levels, cost(1 + num_levels) * pass_ns);
    std::bernoulli_distribution accepted(one[0].candidate == 0 ? 0.6 : 0.95);
    std::uint32_t right = 0;
    while (right < num_levels && accepted(random)) ++right;
    tokens.insert(tokens.end(), right, token_id{1});
    tokens.push_back(token_id{2});
    num_second += round >= 500 && num_levels > 0 && one[0].candidate == 1 ? 1 : 0;
  }
  EXPECT_GT(num_second, 80U);
}

} // namespace
} // namespace paceline::speculation::draft_controller_drawn_test
