#include "runtime/speculation/control/probe_choice.hpp"
#include "tests/runtime/speculation/control/cost_curves.hpp"

#include <gtest/gtest.h>

namespace paceline::speculation {
namespace {

constexpr probe_choice::offer eight{.candidate = 0, .num_probes = 8};

/// Rounds of one request that carried the probes, if each round with warm probes keeps `gain` of `nodes`
/// tokens.
std::uint32_t rounds_with_probes(probe_choice& probes, const pass_cost& cost, std::uint32_t num_rounds,
                                 double gain, std::uint32_t nodes, std::uint32_t num_lanes = 1) {
  probe_history request;
  std::uint32_t num_carried = 0;
  const double without = num_lanes / cost.ratio(num_lanes);
  for (std::uint32_t round = 0; round < num_rounds; ++round) {
    const auto carried = probes.choose(request, {&eight, 1}, num_lanes, without, cost);
    const bool warm = request.warmth(0) == 2;
    probes.settle(request, carried ? std::optional(carried->candidate) : std::nullopt, warm ? gain : 0,
                  nodes);
    probes.observe(cost.time(1));
    num_carried += carried ? 1 : 0;
  }
  return num_carried;
}

TEST(probe_choice, carries_probes_that_are_worth_their_rows) {
  const auto cost = straight(0.05); // eight probes: 0.4 passes
  probe_choice probes(1);
  EXPECT_EQ(rounds_with_probes(probes, cost, 400, 1.5, 3), 400U);
}

TEST(probe_choice, leaves_others_after_a_look) {
  const auto cost = straight(0.05);
  probe_choice probes(1);
  EXPECT_LE(rounds_with_probes(probes, cost, 400, 0.2, 3), probe_choice::look_rounds);
  EXPECT_EQ(rounds_with_probes(probes, cost, 50, 0.2, 3), 0U) << "the next request knows";
}

TEST(probe_choice, looks_within_one_percent_of_the_time) {
  const auto cost = straight(0.05);
  probe_choice probes(1);
  rounds_with_probes(probes, cost, 400, 0, 3);
  const auto looked = rounds_with_probes(probes, cost, 20'000, 0, 3);
  EXPECT_GT(looked, 0U);
  EXPECT_LE(looked * 0.4, 0.01 * 20'000 * 1.1);
}

TEST(probe_choice, a_look_at_rows_that_cost_much_is_short) {
  const auto cost = straight(1.0); // eight probes: eight passes
  probe_choice probes(1);
  EXPECT_LE(rounds_with_probes(probes, cost, 1000, 0, 3), 8U);
}

TEST(probe_choice, what_pays_for_one_request_need_not_for_eight) {
  const auto cost = straight(0.12);
  probe_choice probes(1);
  EXPECT_EQ(rounds_with_probes(probes, cost, 300, 1.6, 2), 300U);   // 2.6 tokens for 2.2 passes
  EXPECT_LT(rounds_with_probes(probes, cost, 300, 1.6, 2, 8), 50U); // 20.8 for 11.4, not 8 for 1.84
}

TEST(probe_choice, warmth_grows_with_rounds_and_outlasts_a_pause) {
  const auto cost = straight(0.05);
  probe_choice probes(1);
  probe_history request;
  EXPECT_EQ(request.warmth(0), 0);
  const auto round = [&](bool carried) {
    const auto chosen = probes.choose(request, {&eight, 1}, 1, 1, cost);
    ASSERT_TRUE(chosen);
    probes.settle(request, carried ? std::optional(0U) : std::nullopt, 2, 3);
  };
  round(true);
  EXPECT_EQ(request.warmth(0), 1);
  for (std::uint32_t i = 1; i < 2 * probe_choice::warm_rounds; ++i) round(true);
  EXPECT_EQ(request.warmth(0), 2);
  round(false);
  EXPECT_EQ(request.warmth(0), 2);
  round(false);
  EXPECT_EQ(request.warmth(0), 0);
}

} // namespace
} // namespace paceline::speculation
