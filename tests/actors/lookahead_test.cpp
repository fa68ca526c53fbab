// Lookahead with the window of its paper: 60 probes beside up to 60 nodes, in one pass.
#include "tests/actors/requests.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

namespace paceline {
namespace {

using namespace test;

/// The target's best tokens soon repeat.
model::hash_model_config repeating_target() {
  auto target = small_target();
  target.memory = 1;
  return target;
}

/// W = 15, N = 5, G = 15 (Fu et al. 2024).
std::unique_ptr<speculation::drafter> the_papers_lookahead() {
  auto options = options_of("lookahead", "lookahead");
  options.lookahead_window = options.lookahead_guesses = 15;
  options.lookahead_ngram = 5;
  return speculation::drafter_registry::with_built_in()
      .make({.options = options, .own_model = nullptr, .target_vocab_size = 64})
      .value();
}

struct passes {
  std::uint64_t most_rows = 0;
  std::uint64_t num_wide = 0; ///< with a whole window
};

/// Runs `num_requests` requests with drafter 1, or with "auto", which has no other candidate.
struct lookahead_run {
  lookahead_run(bool automatic, float temperature, std::uint32_t num_requests) {
    simulation_options options;
    options.target = repeating_target();
    options.num_blocks = 1024;
    options.auto_draft_length = automatic ? 4 : 0;
    options.target_cost = [this](std::uint64_t rows) -> std::chrono::nanoseconds {
      counted.most_rows = std::max(counted.most_rows, rows);
      counted.num_wide += rows > 60 ? 1 : 0;
      return std::chrono::microseconds(3000 + rows);
    };
    std::vector<simulated_drafter> drafters;
    drafters.push_back({the_papers_lookahead(), 4, 0});
    simulation sim(std::move(options), std::move(drafters));
    for (std::uint32_t n = 0; n < num_requests; ++n) {
      const auto request = request_number(n, temperature, 100);
      sim.submit(request, drafter_index{automatic ? 2U : 1U});
      plain.push_back(decode_plainly(sim.target(), request));
    }
    EXPECT_TRUE(sim.run());
    for (std::uint32_t n = 0; n < num_requests; ++n) {
      tokens.push_back(sim.client(n).tokens);
      num_accepted += sim.client(n).speculation->num_accepted_tokens;
    }
    EXPECT_EQ(sim.check_invariants(), "");
    EXPECT_EQ(sim.scheduler().counters().stale_drafts, 0U) << "a refused draft counts as stale";
  }
  passes counted;
  std::vector<std::vector<token_id>> tokens, plain;
  std::uint32_t num_accepted = 0;
};

TEST(lookahead, the_papers_window_fits_a_pass_and_changes_no_token) {
  for (const float temperature : {0.0F, 1.0F})
    for (const std::uint32_t num_requests : {1U, 3U}) {
      const lookahead_run run(false, temperature, num_requests);
      EXPECT_EQ(run.tokens, run.plain) << "temperature " << temperature;
      EXPECT_GT(run.counted.most_rows, 64U) << "more than a tree has nodes";
      EXPECT_GT(run.num_accepted, 0U);
    }
}

TEST(lookahead, is_a_candidate_of_auto) {
  const lookahead_run run(true, 0.0F, 1);
  EXPECT_EQ(run.tokens, run.plain);
  EXPECT_GT(run.num_accepted, 20U);
  EXPECT_GT(run.counted.num_wide, 5U);
}

} // namespace
} // namespace paceline
