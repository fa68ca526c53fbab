// Drafter "auto" with drafters that must be asked, in virtual time.
#include "tests/actors/requests.hpp"

#include <gtest/gtest.h>

namespace paceline {
namespace {

using namespace test;
using std::chrono::microseconds;

struct drafting {
  const char* kind = "often_right";
  microseconds cost{500}; ///< for each level
};

/// With a short memory, so that long texts are computed quickly.
model::hash_model_config forgetful_target() {
  auto target = small_target();
  target.memory = 12;
  return target;
}

/// Time of requests whose drafter is "none", the worker with drafts of `length`, or "auto" (draft length 0).
std::chrono::nanoseconds time_with(drafting worker, drafter_index drafter, std::uint32_t length,
                                   std::uint32_t num_requests, std::uint32_t max_tokens) {
  virtual_clock* time = nullptr;
  simulation_options options;
  options.target = forgetful_target();
  options.num_blocks = 8192;
  options.context_length = 4096;
  options.auto_draft_length = 8;
  std::vector<simulated_drafter> drafters;
  drafters.push_back({drafter_called("ngram", small_target()), 8, 0});
  auto inner = placed(drafter_called(worker.kind, forgetful_target()), speculation::placement::worker);
  drafters.push_back(
      {std::make_unique<slow_drafter>(std::move(inner), time, worker.cost), std::max(length, 1U), 0});
  simulation sim(options, std::move(drafters));
  time = &sim.device().time();
  const auto begin = time->now();
  for (std::uint32_t n = 0; n < num_requests; ++n) sim.submit(request_number(n, 1.0F, max_tokens), drafter);
  EXPECT_TRUE(sim.run());
  EXPECT_EQ(sim.check_invariants(), "");
  return time->now() - begin;
}

class auto_of_workers : public ::testing::TestWithParam<drafting> {};

/// Includes the cost of trials.
TEST_P(auto_of_workers, is_about_as_fast_as_the_best_fixed_length_and_never_slower_than_none) {
  for (const std::uint32_t num_requests : {1U, 4U}) {
    SCOPED_TRACE(::testing::Message() << num_requests << " requests");
    constexpr std::uint32_t max_tokens = 1500;
    const auto plain = time_with(GetParam(), plain_decoding, 0, num_requests, max_tokens);
    auto best = plain;
    for (const std::uint32_t length : {1U, 2U, 3U, 5U, 8U})
      best = std::min(best, time_with(GetParam(), drafter_index{2}, length, num_requests, max_tokens));
    const auto chosen = time_with(GetParam(), drafter_index{3}, 0, num_requests, max_tokens);
    EXPECT_LE(static_cast<double>(chosen.count()), 1.03 * static_cast<double>(best.count()))
        << "plain " << plain.count() / 1e6 << " ms, best " << best.count() / 1e6 << " ms";
    EXPECT_LE(static_cast<double>(chosen.count()), 1.02 * static_cast<double>(plain.count()));
  }
}

INSTANTIATE_TEST_SUITE_P(drafters, auto_of_workers,
                         ::testing::Values(drafting{"always_right", microseconds(100)},
                                           drafting{"always_right", microseconds(1000)},
                                           drafting{"always_right", microseconds(6000)},
                                           drafting{"often_right", microseconds(100)},
                                           drafting{"often_right", microseconds(1000)},
                                           drafting{"often_right", microseconds(3000)},
                                           drafting{"always_wrong", microseconds(100)},
                                           drafting{"always_wrong", microseconds(3000)}),
                         [](const auto& tested) {
                           return std::string(tested.param.kind) + "_" +
                                  std::to_string(tested.param.cost.count()) + "us";
                         });

/// Time of greedy requests with a drafter whose rows ride in the pass, by "none", by itself or by "auto".
std::chrono::nanoseconds time_in_pass(const char* kind, drafter_index drafter, std::uint32_t num_requests) {
  simulation_options options;
  options.target = forgetful_target();
  options.num_blocks = 8192;
  options.context_length = 4096;
  options.auto_draft_length = 8;
  std::vector<simulated_drafter> drafters;
  drafters.push_back({drafter_called("ngram", small_target()), 8, 0});
  drafters.push_back({drafter_called(kind, forgetful_target()), 8, 0});
  simulation sim(options, std::move(drafters));
  const auto begin = sim.device().time().now();
  for (std::uint32_t n = 0; n < num_requests; ++n) sim.submit(request_number(n, 0.0F, 800), drafter);
  EXPECT_TRUE(sim.run());
  EXPECT_EQ(sim.check_invariants(), "");
  return sim.device().time().now() - begin;
}

TEST(auto_of_rows_in_the_pass, takes_them_where_they_pay_and_finds_out_cheaply_where_not) {
  for (const std::uint32_t num_requests : {1U, 4U}) {
    const auto plain = time_in_pass("pass", plain_decoding, num_requests);
    for (const char* kind : {"pass", "ppd"}) {
      const auto alone = time_in_pass(kind, drafter_index{2}, num_requests);
      const auto chosen = time_in_pass(kind, drafter_index{3}, num_requests);
      EXPECT_LT(chosen, 0.75 * plain) << kind << " for " << num_requests;
      EXPECT_LT(chosen, 1.05 * alone) << kind << " for " << num_requests;
    }
    for (const char* kind : {"pass_other", "ppd_other"})
      EXPECT_LT(time_in_pass(kind, drafter_index{3}, num_requests), 1.02 * plain) << kind;
  }
}

} // namespace
} // namespace paceline
