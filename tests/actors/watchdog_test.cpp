#include "tests/actors/requests.hpp"

#include <gtest/gtest.h>

namespace paceline {
namespace {

using namespace test;
using std::chrono::milliseconds;

simulation_options watched_options() {
  simulation_options options;
  options.target = small_target();
  options.max_running = 2; // the third request waits
  options.round_timeout = milliseconds(2000);
  return options;
}

/// Runs the simulation until virtual time has moved by `d`.
void pass(simulation& sim, std::chrono::nanoseconds d) {
  const auto end = sim.device().time().now() + d;
  while (sim.device().time().now() < end && sim.step()) {
  }
}

void expect_prefix(const simulated_client& client, const std::vector<token_id>& plain) {
  EXPECT_EQ(client.num_ends, 1U);
  EXPECT_FALSE(client.gap);
  ASSERT_LE(client.tokens.size(), plain.size());
  EXPECT_TRUE(std::equal(client.tokens.begin(), client.tokens.end(), plain.begin()));
}

/// The device hangs after every third number of steps of a run.
TEST(watchdog, a_device_that_does_not_answer_ends_its_requests_in_time_and_serves_again_when_it_does) {
  std::uint32_t losses = 0;
  for (std::size_t hang_at = 10; hang_at < 250; hang_at += 3) {
    SCOPED_TRACE("hangs after step " + std::to_string(hang_at));
    auto options = watched_options();
    options.two_groups = true;
    options.num_partitions = 2;
    std::vector<simulated_drafter> drafters;
    drafters.push_back(
        {placed(drafter_called("half_right", small_target()), speculation::placement::worker), 3, 1});
    simulation sim(options, std::move(drafters));
    std::vector<generation_request> requests;
    for (std::uint32_t n = 0; n < 3; ++n) {
      requests.push_back(request_number(n, n % 2 == 0 ? 0.0F : 1.0F, 10));
      sim.submit(requests.back(), drafter_index{n % 2});
    }
    for (std::size_t i = 0; i < hang_at && sim.step(); ++i) {
    }
    sim.device().hang();
    const auto begin = sim.device().time().now();
    ASSERT_TRUE(sim.run(100'000)) << sim.scheduler().describe();
    EXPECT_LE(sim.device().time().now() - begin, options.round_timeout + milliseconds(100));
    for (std::uint32_t n = 0; n < 3; ++n) {
      expect_prefix(sim.client(n), decode_plainly(sim.target(), requests[n]));
      if (sim.client(n).finish == finish_reason::length) continue;
      ASSERT_EQ(sim.client(n).finish, finish_reason::error) << n;
      EXPECT_EQ(sim.client(n).failure->code(), errc::device_lost);
    }
    EXPECT_EQ(sim.check_invariants(), "");
    const bool lost = sim.scheduler().device_lost();
    EXPECT_EQ(sim.scheduler().counters().num_device_losses, lost ? 1U : 0U);
    EXPECT_EQ(sim.healthy(), !lost);
    losses += lost ? 1 : 0;
    if (lost) { // its program may still write, so its blocks stay allocated and no new request is admitted
      EXPECT_GT(sim.pools().usage(kv::pool_id{0}).num_active, 0U);
      const auto refused = sim.submit(requests[0]);
      ASSERT_TRUE(sim.run(100'000));
      ASSERT_TRUE(sim.client(refused).failure);
      EXPECT_EQ(sim.client(refused).failure->code(), errc::device_lost);
    }

    sim.device().let_go();
    pass(sim, milliseconds(500));
    EXPECT_TRUE(sim.healthy());
    const auto next = sim.submit(requests[1], drafter_index{1});
    ASSERT_TRUE(sim.run(100'000));
    EXPECT_EQ(sim.client(next).tokens, decode_plainly(sim.target(), requests[1]));
    for (std::uint32_t n = 0; n < 3; ++n)
      expect_prefix(sim.client(n), decode_plainly(sim.target(), requests[n]));
    EXPECT_EQ(sim.check_invariants(), "");
    EXPECT_EQ(sim.pools().usage(kv::pool_id{0}).num_active, 0U) << "blocks leaked";
  }
  EXPECT_GT(losses, 30U);
}

TEST(watchdog, rounds_that_take_just_their_time_are_no_loss) {
  auto options = watched_options();
  options.target_cost = [](std::uint64_t) { return milliseconds(1900); };
  simulation sim(options);
  std::vector<generation_request> requests;
  for (std::uint32_t n = 0; n < 3; ++n) {
    requests.push_back(request_number(n, 0.0F, 8));
    sim.submit(requests.back());
  }
  ASSERT_TRUE(sim.run());
  for (std::uint32_t n = 0; n < 3; ++n)
    EXPECT_EQ(sim.client(n).tokens, decode_plainly(sim.target(), requests[n]));
  EXPECT_EQ(sim.scheduler().counters().num_device_losses, 0U);
}

TEST(watchdog, a_verifier_killed_on_a_lost_device_changes_nothing) {
  simulation sim(watched_options());
  const auto request = request_number(0, 1.0F, 30);
  sim.submit(request);
  while (sim.client(0).tokens.size() < 5) ASSERT_TRUE(sim.step());
  sim.device().hang();
  ASSERT_TRUE(sim.run(100'000));
  ASSERT_EQ(sim.client(0).failure->code(), errc::device_lost);
  sim.kill("target_verifier/0");
  sim.kill("scheduler/0");
  pass(sim, milliseconds(10'000));
  EXPECT_EQ(sim.scheduler().counters().num_device_losses, 1U);
  EXPECT_EQ(sim.check_invariants(), "");
  sim.device().let_go();
  pass(sim, milliseconds(500));
  EXPECT_EQ(sim.pools().usage(kv::pool_id{0}).num_active, 0U);
  sim.submit(request);
  ASSERT_TRUE(sim.run());
  EXPECT_EQ(sim.client(1).tokens, decode_plainly(sim.target(), request));
}

} // namespace
} // namespace paceline
