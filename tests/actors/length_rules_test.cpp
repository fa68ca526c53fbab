// Rules of length use the real rounds: the levels of trees, and the batch that shares a pass.
#include "tests/actors/requests.hpp"

#include <gtest/gtest.h>

namespace paceline {
namespace {

using namespace test;

/// The mean number of draft tokens in a round, for `concurrency` requests with this rule, drafter and cost of
/// a pass.
double drafted_a_round(const char* drafter, length_rule rule, std::uint32_t concurrency, std::uint32_t length,
                       const decltype(simulation_options::target_cost)& cost) {
  simulation_options options;
  options.target = small_target();
  options.context_length = 512;
  options.num_blocks = 2048;
  options.target_cost = cost;
  std::vector<simulated_drafter> drafters;
  drafters.push_back({drafter_called(drafter, small_target()), length, 0});
  simulation sim(options, std::move(drafters));
  for (std::uint32_t n = 0; n < concurrency; ++n) {
    auto request = request_number(n, 1.0F, 200);
    request.speculation.length_rule = rule;
    sim.submit(request, drafter_index{1});
  }
  EXPECT_TRUE(sim.run());
  double drafted = 0, rounds = 0;
  for (std::uint32_t n = 0; n < concurrency; ++n) {
    drafted += sim.client(n).speculation->num_draft_tokens;
    rounds += sim.client(n).speculation->num_rounds;
  }
  return drafted / rounds;
}

/// Every level has three siblings, one of which is right. So the whole depth is kept, but never all nodes.
TEST(length_rules, a_tree_is_kept_whole_if_one_of_its_paths_is_by_rule_heuristic) {
  const auto cost = simulation_options{}.target_cost;
  EXPECT_GT(drafted_a_round("tree", length_rule::heuristic, 1, 4, cost), 3 * 3.5);
}

/// Up to 8 rows a pass costs about the same; beyond, each row costs as much as the first ones did together.
TEST(length_rules, drafts_are_shorter_in_a_batch_by_rule_optimal) {
  const auto cost = [](std::uint64_t rows) -> std::chrono::nanoseconds {
    return std::chrono::microseconds(rows <= 8 ? 1000 + 10 * rows : 400 * rows);
  };
  EXPECT_GT(drafted_a_round("often_right", length_rule::optimal, 1, 6, cost), 4);
  EXPECT_LT(drafted_a_round("often_right", length_rule::optimal, 8, 6, cost), 2);
}

/// A level of three nodes takes longer than the token that it gives.
TEST(length_rules, every_node_of_a_tree_takes_time_by_rule_optimal) {
  const auto cost = [](std::uint64_t rows) -> std::chrono::nanoseconds {
    return std::chrono::microseconds(600 + 400 * rows);
  };
  EXPECT_LT(drafted_a_round("tree", length_rule::optimal, 1, 4, cost), 4) << "one level now and then";
}

} // namespace
} // namespace paceline
