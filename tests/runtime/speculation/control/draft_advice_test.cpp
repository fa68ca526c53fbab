// Which workers the controller asks when there are several, and when their times are not clear.
#include "runtime/speculation/control/draft_controller.hpp"

#include "tests/runtime/speculation/control/cost_curves.hpp"

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <vector>

namespace paceline::speculation::draft_advice_test {
namespace {

constexpr double pass_ns = 1e6; ///< over one row
constexpr std::uint32_t most_levels = 4;

struct worker {
  double acceptance = 0;
  double step = 0.1; ///< passes for each level
};

/// One request after another, each with a few rounds, and workers that are asked as advised.
class replay {
 public:
  replay(std::vector<worker> workers, bool always_catches_up)
      : workers_(std::move(workers)), always_catches_up_(always_catches_up),
        controller_(std::vector<acceptance_table::prior>(workers_.size()), 0), num_asked(workers_.size()) {
    controller_.calibrate(timed_at_load(cost, pass_ns, random_));
  }

  void serve(std::uint32_t num_tokens) {
    draft_history history;
    std::vector<token_id> tokens;
    draft_controller::advice asked;
    while (tokens.size() < num_tokens) {
      controller_.learn(history, tokens);
      std::vector<draft_controller::request_choice> one(1);
      one[0].history = &history;
      one[0].proposals.resize(workers_.size());
      std::uint32_t right = 0;
      if (asked.length > 0) {
        const worker& by = workers_[asked.candidate];
        while (right < asked.length && std::bernoulli_distribution(by.acceptance)(random_)) ++right;
        one[0].proposals[asked.candidate] = chain(tokens.size(), asked.length, right);
        controller_.observe_drafting(asked.candidate, by.step * pass_ns, always_catches_up_);
        num_asked[asked.candidate] += asked.length;
        time += by.step * asked.length;
      }
      controller_.choose(one, {});
      const auto num_rows = 1 + one[0].chosen.tree.size();
      controller_.observe(num_rows, cost(num_rows) * pass_ns);
      time += cost(num_rows);
      for (std::uint32_t i = 0; i <= std::min(right, num_rows - 1); ++i)
        tokens.push_back(token_id{static_cast<std::int32_t>(tokens.size())});
      draft_history* const of[] = {&history};
      const auto advice = controller_.advise(of, 0, most_levels);
      asked = advice.empty() ? draft_controller::advice{} : advice[0];
    }
  }

 private:
  static double cost(std::uint32_t rows) { return 1 + 0.05 * (rows - 1); }
  static draft chain(std::size_t position, std::uint32_t length, std::uint32_t num_right) {
    draft made{.base_length = static_cast<std::uint32_t>(position)};
    std::int32_t node = token_tree::root;
    for (std::uint32_t i = 0; i < length; ++i) {
      node = made.tree.add(token_id{i < num_right ? static_cast<std::int32_t>(position + i) : -1}, node);
      made.signals.push_back(0);
    }
    return made;
  }

  std::vector<worker> workers_;
  bool always_catches_up_;
  draft_controller controller_;
  std::mt19937_64 random_{1};

 public:
  std::vector<std::uint32_t> num_asked; ///< tokens
  double time = 0;                      ///< in passes over one row
};

/// The first worker pays, so without trials the other one would never be measured.
TEST(advice, finds_a_better_worker_than_one_that_pays) {
  replay of({{.acceptance = 0.5, .step = 0.1}, {.acceptance = 0.95, .step = 0.1}}, false);
  for (int request = 0; request < 40; ++request) of.serve(300);
  const auto before = of.num_asked;
  for (int request = 0; request < 10; ++request) of.serve(300);
  EXPECT_GT(of.num_asked[1] - before[1], 20 * (of.num_asked[0] - before[0]));
}

TEST(advice, spends_little_on_a_worse_worker_than_one_that_pays) {
  replay alone({{.acceptance = 0.9, .step = 0.1}}, false);
  replay both({{.acceptance = 0.9, .step = 0.1}, {.acceptance = 0.0, .step = 0.5}}, false);
  for (int request = 0; request < 40; ++request) alone.serve(300), both.serve(300);
  EXPECT_LT(both.time, 1.03 * alone.time);
  EXPECT_GT(both.num_asked[1], 0U);
}

/// A request that commits many tokens by other drafts has its worker read them, so that a batch may have no
/// round in which a worker only drafts.
TEST(advice, uses_a_worker_whose_time_is_seen_only_with_other_work) {
  replay of({{.acceptance = 0.95, .step = 0.1}}, true);
  for (int request = 0; request < 4; ++request) of.serve(300);
  EXPECT_LT(of.time, 0.6 * 4 * 300);
}

} // namespace
} // namespace paceline::speculation::draft_advice_test
