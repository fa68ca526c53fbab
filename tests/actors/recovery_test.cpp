#include "tests/actors/requests.hpp"

#include <gtest/gtest.h>

#include <array>

namespace paceline {
namespace {

using namespace test;

class recovery : public ::testing::TestWithParam<std::string> {};

/// Kills one actor after every possible number of steps of a run; clients must not notice.
TEST_P(recovery, a_killed_actor_costs_no_token) {
  std::size_t num_steps = 1;
  std::uint64_t restarts = 0, num_hits = 0;
  std::array<std::uint64_t, 9> num_accepted{}; // by drafter
  for (std::size_t kill_at = 0; kill_at < num_steps; ++kill_at) {
    simulation_options options;
    options.target = small_target();
    options.target.recurrent = kill_at % 3 == 0;
    options.two_groups = kill_at % 2 == 0;
    options.overlap = {kill_at % 4 == 1 ? ahead_mode::ahead : ahead_mode::outcomes};
    options.num_partitions = 2;
    options.max_running = 4; // the last requests begin when others have ended
    std::vector<simulated_drafter> drafters;
    drafters.push_back(
        {placed(drafter_called("half_right", small_target()), speculation::placement::worker), 3, 1});
    drafters.push_back({drafter_called("model", small_target()), 3, 1});
    for (const char* const head :
         {"head_dynamic", "head_parallel_static", "head_path_static", "head", "head_block"})
      drafters.push_back({drafter_called(head, small_target()), 3, 1});
    drafters.push_back({drafter_called("ppd", small_target()), 3, 0});
    simulation sim(options, std::move(drafters));
    std::vector<generation_request> requests;
    for (std::uint32_t n = 0; n < num_accepted.size(); ++n) { // one without a drafter, and one with each
      requests.push_back(request_number(n, n % 2 == 0 ? 0.0F : 1.0F, 8));
      sim.submit(requests.back(), drafter_index{n});
    }
    for (std::uint32_t n = 2; n < 4; ++n) { // again, with drafters that have a prefix cache
      requests.push_back(requests[n]);
      sim.submit(requests.back(), drafter_index{n});
    }
    std::size_t steps = 0;
    while (steps < kill_at && sim.step()) ++steps;
    sim.kill(GetParam());
    SCOPED_TRACE("killed " + GetParam() + " after step " + std::to_string(kill_at));
    ASSERT_TRUE(sim.run(200'000));
    for (std::uint32_t n = 0; n < requests.size(); ++n) {
      ASSERT_EQ(sim.client(n).tokens, decode_plainly(sim.target(), requests[n])) << "request " << n;
      ASSERT_FALSE(sim.client(n).gap);
      ASSERT_EQ(sim.client(n).num_ends, 1U);
      if (n < num_accepted.size()) num_accepted[n] += sim.client(n).speculation->num_accepted_tokens;
    }
    ASSERT_EQ(sim.check_invariants(), "");
    for (kv::pool_id pool{0}; pool.value < sim.pools().num_pools(); ++pool.value) {
      ASSERT_EQ(sim.pools().usage(pool).num_active, 0U) << "blocks of pool " << pool.value << " leaked";
      if (pool.value > 0) num_hits += sim.pools().counters(pool).num_hit_tokens;
    }
    restarts += sim.num_restarts(GetParam());
    if (kill_at == 0) num_steps = 450; // a run takes about this many
  }
  EXPECT_GT(restarts, num_steps / 2);
  EXPECT_GT(num_hits, 8 * num_steps) << "drafters found little in their caches";
  for (std::size_t n = 1; n < num_accepted.size(); ++n)
    EXPECT_GT(num_accepted[n], num_steps / 2) << "drafter " << n;
}

INSTANTIATE_TEST_SUITE_P(actors, recovery,
                         ::testing::Values("target_verifier/0", "draft_worker/0/1", "draft_worker/0/2",
                                           "draft_worker/0/3", "draft_worker/0/4", "draft_worker/0/5",
                                           "draft_worker/0/6", "draft_worker/0/7", "scheduler/0", "kv_pool"),
                         [](const auto& tested) {
                           auto name = tested.param;
                           std::ranges::replace(name, '/', '_');
                           return name;
                         });

TEST(recovery_of_fan_out, ends_its_requests_with_a_reason_and_serves_the_next) {
  simulation_options options;
  options.target = small_target();
  simulation sim(options);
  sim.submit(request_number(0, 0.0F));
  for (int i = 0; i < 60; ++i) sim.step();
  sim.kill("fan_out");
  ASSERT_TRUE(sim.run());
  EXPECT_EQ(sim.client(0).finish, finish_reason::error);
  EXPECT_EQ(sim.client(0).failure->code(), errc::device_lost);
  sim.submit(request_number(1, 0.0F));
  ASSERT_TRUE(sim.run());
  EXPECT_EQ(sim.client(1).tokens, decode_plainly(sim.target(), request_number(1, 0.0F)));
  EXPECT_EQ(sim.pools().usage(kv::pool_id{0}).num_active, 0U);
}

/// Kills fan_out or a session after every possible number of steps of a run. Every client gets exactly one
/// end, and clients that lost nothing get all tokens.
TEST(recovery_of_events, whoever_is_killed_when_every_client_gets_one_end_and_no_hole) {
  for (const std::string victim : {"fan_out", "session/1"}) {
    std::uint32_t whole = 0, ended_early = 0;
    for (std::size_t kill_at = 0; kill_at < 250; ++kill_at) {
      SCOPED_TRACE("killed " + victim + " after step " + std::to_string(kill_at));
      simulation_options options;
      options.target = small_target();
      simulation sim(options);
      std::vector<generation_request> requests;
      for (std::uint32_t n = 0; n < 3; ++n) {
        requests.push_back(request_number(n, 0.0F, 8));
        sim.submit(requests.back());
      }
      for (std::size_t i = 0; i < kill_at && sim.step(); ++i) {
      }
      sim.kill(victim);
      requests.push_back(request_number(3, 0.0F, 8)); // submitted before the death is known
      sim.submit(requests.back());
      ASSERT_TRUE(sim.run(200'000));
      for (std::uint32_t n = 0; n < requests.size(); ++n) {
        const auto& client = sim.client(n);
        const auto plain = decode_plainly(sim.target(), requests[n]);
        ASSERT_EQ(client.num_ends, 1U) << n;
        ASSERT_FALSE(client.gap) << n;
        if (client.finish == finish_reason::length) {
          ++whole;
          ASSERT_EQ(client.tokens, plain) << n;
          continue;
        }
        ++ended_early;
        ASSERT_EQ(client.finish, finish_reason::error) << n;
        ASSERT_EQ(client.failure->code(), errc::device_lost);
        ASSERT_TRUE(victim == "fan_out" || n == 1) << n;
        ASSERT_LE(client.tokens.size(), plain.size());
        ASSERT_TRUE(std::equal(client.tokens.begin(), client.tokens.end(), plain.begin())) << n;
      }
      ASSERT_EQ(sim.check_invariants(), "");
      ASSERT_EQ(sim.pools().usage(kv::pool_id{0}).num_active, 0U) << "blocks leaked";
    }
    EXPECT_GT(whole, 200U);
    EXPECT_GT(ended_early, 50U);
  }
}

/// A session that crashes cancels its request; here the scheduler dies before it reads the cancellation.
TEST(recovery_of_memory, a_request_whose_cancel_was_lost_leaves_its_memory) {
  simulation_options options;
  options.target = small_target();
  simulation sim(options);
  sim.submit(request_number(0, 0.0F, 8), plain_decoding, 2); // stops after two tokens
  for (int i = 0; i < 60; ++i) sim.step();
  ASSERT_EQ(sim.client(0).tokens.size(), 2U);
  sim.kill("scheduler/0");
  sim.kill("session/0");
  sim.submit(request_number(1, 0.0F, 60)); // continues for longer than a tick
  ASSERT_TRUE(sim.run());
  EXPECT_EQ(sim.client(0).finish, finish_reason::error);
  EXPECT_EQ(sim.pools().usage(kv::pool_id{0}).num_active, 0U);
}

TEST(restart_budget, is_spent_within_its_window_only) {
  actors::restart_budget budget(2, std::chrono::seconds(10));
  const time_point t{};
  EXPECT_TRUE(budget.spend(t));
  EXPECT_TRUE(budget.spend(t + std::chrono::seconds(1)));
  EXPECT_FALSE(budget.spend(t + std::chrono::seconds(2)));
  EXPECT_TRUE(budget.spend(t + std::chrono::seconds(11)));
}

} // namespace
} // namespace paceline
