// Actors that exceed their restart budget: which requests fail, and which parts continue.
#include "tests/actors/requests.hpp"

#include <gtest/gtest.h>

namespace paceline {
namespace {

using namespace test;
using std::chrono::seconds;

/// No actor is restarted.
simulation_options without_restarts() {
  simulation_options options;
  options.target = small_target();
  options.max_running = 2; // the third request waits
  options.max_restarts = 0;
  return options;
}

class lost_part : public ::testing::TestWithParam<std::string> {};

/// The part fails after every possible number of steps of a run.
TEST_P(lost_part, ends_every_request_with_a_reason_and_refuses_new_ones) {
  for (std::size_t lost_at = 0; lost_at < 150; lost_at += 3) {
    SCOPED_TRACE(GetParam() + " lost after step " + std::to_string(lost_at));
    simulation sim(without_restarts());
    std::vector<generation_request> requests;
    for (std::uint32_t n = 0; n < 4; ++n) {
      requests.push_back(request_number(n, 0.0F, 20));
      if (n < 3) sim.submit(requests.back());
    }
    for (std::size_t i = 0; i < lost_at && sim.step(); ++i) {
    }
    const auto begin = sim.device().time().now();
    sim.kill(GetParam());
    sim.submit(requests[3]); // before the death is known
    sim.cancel(1);
    ASSERT_TRUE(sim.run(100'000)) << "a request has no end";
    EXPECT_LE(sim.device().time().now() - begin, seconds(1));
    EXPECT_FALSE(sim.healthy());
    for (std::uint32_t n = 0; n < 4; ++n) {
      const auto& client = sim.client(n);
      const auto plain = decode_plainly(sim.target(), requests[n]);
      ASSERT_EQ(client.num_ends, 1U) << n;
      ASSERT_FALSE(client.gap) << n;
      ASSERT_LE(client.tokens.size(), plain.size()) << n;
      ASSERT_TRUE(std::equal(client.tokens.begin(), client.tokens.end(), plain.begin())) << n;
      if (client.finish == finish_reason::length || client.finish == finish_reason::cancelled) continue;
      ASSERT_TRUE(client.failure) << n;
      EXPECT_EQ(client.failure->code(), errc::out_of_service);
      EXPECT_NE(client.failure->message().find("out of service"), std::string::npos)
          << client.failure->message();
    }
    const auto late = sim.submit(requests[0]);
    ASSERT_TRUE(sim.run(100'000));
    ASSERT_TRUE(sim.client(late).failure);
    EXPECT_NE(sim.client(late).failure->message().find("out of service"), std::string::npos);
    EXPECT_EQ(sim.check_invariants(), "");
    if (GetParam() == "kv_pool") continue;
    const auto usage = sim.pools().usage(kv::pool_id{0});
    ASSERT_EQ(usage.num_active + usage.num_deferred, 0U) << "memory that other models could borrow";
  }
}

INSTANTIATE_TEST_SUITE_P(actors, lost_part,
                         ::testing::Values("scheduler/0", "target_verifier/0", "kv_pool", "fan_out"),
                         [](const auto& tested) {
                           auto name = tested.param;
                           std::ranges::replace(name, '/', '_');
                           return name;
                         });

/// The drafter has its own stream and memory.
TEST(lost_draft_worker, leaves_its_model_decoding_plainly) {
  for (std::size_t lost_at = 0; lost_at < 200; lost_at += 3) {
    SCOPED_TRACE("lost after step " + std::to_string(lost_at));
    auto options = without_restarts();
    options.num_partitions = 2;
    options.two_groups = lost_at % 2 == 0;
    options.overlap = {lost_at % 4 < 2 ? ahead_mode::ahead : ahead_mode::outcomes};
    std::vector<simulated_drafter> drafters;
    drafters.push_back({drafter_called("model", small_target()), 3, 1});
    simulation sim(options, std::move(drafters));
    std::vector<generation_request> requests;
    for (std::uint32_t n = 0; n < 3; ++n) {
      requests.push_back(request_number(n, n % 2 == 0 ? 0.0F : 1.0F, 10));
      sim.submit(requests.back(), drafter_index{1});
    }
    for (std::size_t i = 0; i < lost_at && sim.step(); ++i) {
    }
    sim.kill("draft_worker/0/1");
    for (int i = 0; i < 200 && sim.step(); ++i) ASSERT_EQ(sim.check_invariants(), "");
    ASSERT_TRUE(sim.run(100'000)) << sim.scheduler().describe();
    EXPECT_TRUE(sim.healthy()) << "its model serves";
    const auto lost = actors::worker_of(model_number{0}, drafter_index{1});
    EXPECT_TRUE(sim.faults().at(lost).is_lost);
    EXPECT_NE(sim.faults().at(lost).last.message().find("draft_worker/0/1"), std::string::npos);
    requests.push_back(request_number(3, 0.0F, 10));
    sim.submit(requests.back(), drafter_index{1});
    ASSERT_TRUE(sim.run(100'000));
    for (std::uint32_t n = 0; n < requests.size(); ++n) {
      ASSERT_EQ(sim.client(n).tokens, decode_plainly(sim.target(), requests[n])) << n;
      ASSERT_EQ(sim.client(n).num_ends, 1U) << n;
    }
    EXPECT_EQ(sim.client(3).speculation->num_draft_tokens, 0U);
    EXPECT_EQ(sim.check_invariants(), "");
    for (std::uint32_t p = 0; p < sim.pools().num_pools(); ++p)
      EXPECT_EQ(sim.pools().usage(kv::pool_id{p}).num_active, 0U) << "blocks leaked in pool " << p;
  }
}

/// `auto` has found that one worker pays when that worker is lost. It has not tried the other one.
TEST(lost_draft_worker, of_auto_is_followed_by_another) {
  auto options = without_restarts();
  options.num_partitions = 2;
  options.num_blocks = 4096;
  options.context_length = 4096;
  options.auto_draft_length = 4;
  virtual_clock* time = nullptr;
  std::vector<simulated_drafter> drafters;
  for (const char* const name : {"model", "head"})
    drafters.push_back({std::make_unique<slow_drafter>(drafter_called(name, small_target()), time,
                                                       std::chrono::microseconds(100)),
                        4, 1});
  simulation sim(options, std::move(drafters));
  time = &sim.device().time();
  const auto request = request_number(0, 0.0F, 300);
  sim.submit(request, drafter_index{3});
  const auto num_drafted = [&](std::size_t drafter) {
    return sim.scheduler().counters().drafters.at(drafter).num_draft_tokens;
  };
  while (num_drafted(1) < 60) ASSERT_TRUE(sim.step());
  sim.kill("draft_worker/0/1");
  ASSERT_TRUE(sim.run(100'000));
  EXPECT_EQ(sim.client(0).tokens, decode_plainly(sim.target(), request));
  EXPECT_GT(num_drafted(2), 60U);
  EXPECT_EQ(sim.check_invariants(), "");
  for (std::uint32_t p = 0; p < sim.pools().num_pools(); ++p)
    EXPECT_EQ(sim.pools().usage(kv::pool_id{p}).num_active, 0U) << "blocks leaked in pool " << p;
}

/// Every attempt fails.
class broken_drafter final : public speculation::drafter {
 public:
  explicit broken_drafter(std::unique_ptr<speculation::drafter> inner) : inner_(std::move(inner)) {}
  const speculation::drafter_traits& traits() const noexcept override { return inner_->traits(); }
  std::unique_ptr<speculation::drafter_session> open(request_id r) override { return inner_->open(r); }
  void propose(device::ops&, model::kv_storage*, std::span<speculation::draft_task>) override {
    throw std::runtime_error("it is broken");
  }

 private:
  std::unique_ptr<speculation::drafter> inner_;
};

TEST(failing_drafter, is_counted_and_asked_less_and_less_often) {
  simulation_options options;
  options.target = small_target();
  options.num_partitions = 2;
  options.target_cost = [](std::uint64_t) { return std::chrono::milliseconds(400); };
  std::vector<simulated_drafter> drafters;
  drafters.push_back({std::make_unique<broken_drafter>(placed(drafter_called("half_right", small_target()),
                                                              speculation::placement::worker)),
                      3, 1});
  simulation sim(options, std::move(drafters));
  const auto request = request_number(0, 0.0F, 60);
  sim.submit(request, drafter_index{1});
  ASSERT_TRUE(sim.run());
  EXPECT_EQ(sim.client(0).tokens, decode_plainly(sim.target(), request));
  // 24 seconds: asked at the start, then about 1, 3, 7 and 15 seconds later, for up to two rounds each time.
  const auto num_failures = sim.scheduler().counters().drafters.at(1).num_failures;
  EXPECT_GE(num_failures, 4U);
  EXPECT_LE(num_failures, 10U);
  const auto fault = sim.faults().at(actors::drafter_of(model_number{0}, drafter_index{1}));
  EXPECT_EQ(fault.num, num_failures);
  EXPECT_FALSE(fault.is_lost);
  EXPECT_NE(fault.last.message().find("it is broken"), std::string::npos) << fault.last.message();
}

} // namespace
} // namespace paceline
