#include "tests/actors/requests.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace paceline {
namespace {

using namespace test;

std::vector<simulated_drafter> drafters_for(const std::string& name) {
  std::vector<simulated_drafter> drafters;
  if (name != "none") drafters.push_back({drafter_called(name, small_target()), 4, 0});
  return drafters;
}

/// Steps until the client's request has all its tokens.
testing::AssertionResult ends(simulation& sim, std::size_t client) {
  for (int i = 0; i < 100'000 && sim.client(client).finish == finish_reason::none; ++i) sim.step();
  if (sim.client(client).finish == finish_reason::length) return testing::AssertionSuccess();
  return testing::AssertionFailure() << sim.scheduler().describe();
}

TEST(slow_clients, streams_that_are_not_read_block_nobody_and_go_on_with_the_same_tokens) {
  for (const std::string drafter : {"none", "half_right", "tree", "model"})
    for (const float temperature : {0.0F, 1.0F}) {
      SCOPED_TRACE(drafter + " at " + std::to_string(temperature));
      simulation_options options;
      options.target = small_target();
      options.max_running = 2;
      simulation sim(options, drafters_for(drafter));
      const auto index = drafter == "none" ? plain_decoding : drafter_index{1};
      std::vector<generation_request> requests;
      for (std::uint32_t n = 0; n < 5; ++n) {
        requests.push_back(request_number(n, temperature, 40));
        sim.submit(requests.back(), index, n < 2 ? 9 + n : 1U << 30);
      }
      for (std::size_t n = 2; n < 5; ++n) ASSERT_TRUE(ends(sim, n));
      EXPECT_LT(sim.client(4).arrivals.back() - sim.client(0).arrivals.back(), std::chrono::seconds(3));
      EXPECT_EQ(sim.client(0).tokens.size(), 9U);
      EXPECT_GT(sim.scheduler().counters().num_preemptions, 0U);
      sim.grant(0, 1000);
      sim.grant(1, 1000);
      ASSERT_TRUE(sim.run());
      for (std::uint32_t n = 0; n < 5; ++n) {
        EXPECT_EQ(sim.client(n).tokens, decode_plainly(sim.target(), requests[n])) << n;
        EXPECT_FALSE(sim.client(n).gap);
      }
      EXPECT_EQ(sim.check_invariants(), "");
    }
}

TEST(slow_clients, a_prompt_whose_scores_are_taken_one_by_one_is_scored_to_its_end) {
  for (const std::uint32_t max_tokens : {0U, 12U}) {
    simulation_options options;
    options.target = small_target();
    simulation sim(options, drafters_for("half_right"));
    auto request = request_number(6, 1.0F, 0);
    request.sampling.prompt_logprobs = true;
    request.stop.max_tokens = max_tokens;
    sim.submit(request, drafter_index{1}, 0);
    for (std::size_t granted = 0; sim.client(0).finish == finish_reason::none; ++granted) {
      ASSERT_LE(granted, request.prompt.size() - 1 + max_tokens) << sim.scheduler().describe();
      for (int i = 0; i < 300; ++i) sim.step();
      ASSERT_LE(sim.client(0).tokens.size() + request.prompt.size() - 1,
                std::max(granted, request.prompt.size() - 1));
      sim.grant(0, 1);
    }
    EXPECT_EQ(sim.client(0).tokens, decode_plainly(sim.target(), request));
  }
}

/// Clients that read rarely, with a pool that is too small for all of them.
TEST(slow_clients, any_order_of_reading_ends_with_the_texts_that_requests_have_alone) {
  std::uint64_t num_preemptions = 0;
  for (std::uint64_t seed = 1; seed <= 6; ++seed)
    for (const std::string drafter : {"none", "often_right", "model"}) {
      SCOPED_TRACE(drafter + " seed " + std::to_string(seed));
      simulation_options options;
      options.seed = seed;
      options.shuffle = true;
      options.target = small_target();
      options.max_running = 3;
      options.num_blocks = 40;
      simulation sim(options, drafters_for(drafter));
      std::mt19937_64 random(seed);
      std::vector<generation_request> requests;
      for (std::uint32_t n = 0; n < 10; ++n) {
        requests.push_back(request_number(n, n % 2 == 0 ? 0.0F : 1.0F, 40));
        requests.back().owner = n % 3 == 0 ? "a" : "b";
        sim.submit(requests.back(), drafter == "none" ? plain_decoding : drafter_index{1}, random() % 8);
      }
      const auto open = [&](std::size_t n) { return sim.client(n).finish == finish_reason::none; };
      std::size_t num_grants = 0;
      const auto somebody_is_open = [&] {
        for (std::size_t n = 0; n < requests.size(); ++n)
          if (open(n)) return true;
        return false;
      };
      while (somebody_is_open()) {
        ASSERT_LT(++num_grants, 5000U) << sim.scheduler().describe();
        for (auto steps = random() % 200; steps > 0; --steps) sim.step();
        if (const auto n = random() % requests.size(); open(n)) sim.grant(n, random() % 20);
        ASSERT_EQ(sim.check_invariants(), "");
      }
      ASSERT_TRUE(sim.run());
      for (std::uint32_t n = 0; n < requests.size(); ++n) {
        EXPECT_EQ(sim.client(n).finish, finish_reason::length) << n;
        EXPECT_EQ(sim.client(n).tokens, decode_plainly(sim.target(), requests[n])) << n;
        EXPECT_FALSE(sim.client(n).gap);
      }
      num_preemptions += sim.scheduler().counters().num_preemptions;
    }
  EXPECT_GT(num_preemptions, 0U);
}

} // namespace
} // namespace paceline
