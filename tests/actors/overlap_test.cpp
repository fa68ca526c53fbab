#include "tests/actors/requests.hpp"

#include "runtime/speculation/control/expected_gain.hpp"

#include <gtest/gtest.h>

namespace paceline {
namespace {

using namespace test;

struct overlap_run {
  std::vector<device_span> spans;
  std::chrono::nanoseconds both{};
  time_point end;
};

overlap_run run_with(std::uint32_t num_partitions, bool two_groups,
                     std::optional<overlap_request> asked = {}) {
  virtual_clock* time = nullptr;
  simulation_options options;
  options.target = small_target();
  options.num_partitions = num_partitions;
  options.two_groups = two_groups;
  auto inner = placed(drafter_called("always_right", small_target()), speculation::placement::worker);
  std::vector<simulated_drafter> drafters;
  drafters.push_back(
      {std::make_unique<slow_drafter>(std::move(inner), time, std::chrono::microseconds(700)), 3, 1});
  simulation sim(options, std::move(drafters));
  time = &sim.device().time();
  for (std::uint32_t n = 0; n < 4; ++n) {
    auto request = request_number(n, 0.0F);
    request.speculation.overlap = asked;
    sim.submit(std::move(request), drafter_index{1});
  }
  EXPECT_TRUE(sim.run());
  overlap_run out;
  out.spans = sim.device().spans();
  out.end = sim.device().time().now();
  for (const auto& a : out.spans)
    for (const auto& b : out.spans)
      if (a.label == "draft" && b.label == "verify") {
        const auto begin = std::max(a.begin, b.begin), end = std::min(a.end, b.end);
        if (begin < end) out.both += end - begin;
      }
  return out;
}

TEST(overlap, drafting_the_next_group_runs_while_the_current_one_is_verified) {
  const auto off = run_with(2, false);
  const auto groups = run_with(2, true);
  EXPECT_EQ(off.both.count(), 0) << "one group drafts from its own result";
  std::chrono::nanoseconds drafting{};
  for (const auto& s : groups.spans)
    if (s.label == "draft") drafting += s.end - s.begin;
  EXPECT_GT(groups.both, drafting / 2);
}

TEST(overlap, what_a_request_says_of_groups_comes_before_what_the_engine_does) {
  EXPECT_EQ(run_with(2, false, overlap_request::groups).end, run_with(2, true).end);
  EXPECT_EQ(run_with(2, true, overlap_request::off).end, run_with(2, false).end);
  EXPECT_NE(run_with(2, true).end, run_with(2, false).end);
}

TEST(overlap, one_pool_of_cores_computes_one_thing_at_a_time_in_order) {
  const auto run = run_with(1, true);
  EXPECT_EQ(run.both.count(), 0);
  for (std::size_t i = 1; i < run.spans.size(); ++i) EXPECT_GE(run.spans[i].begin, run.spans[i - 1].end);
}

TEST(overlap, the_targets_stream_never_waits_for_the_host) {
  simulation_options options;
  options.target = small_target();
  simulation sim(options);
  sim.submit(request_number(0, 0.0F, 60));
  ASSERT_TRUE(sim.run());
  // In virtual time messages cost nothing, so a gap means that a round was not enqueued before the previous
  // one ended. With real messages, the device would be idle.
  const auto& spans = sim.device().spans();
  for (std::size_t i = 1; i < spans.size(); ++i) EXPECT_EQ(spans[i].begin, spans[i - 1].end) << "round " << i;
}

struct ahead_run {
  std::vector<std::vector<token_id>> tokens;
  std::vector<std::vector<round_trace>> rounds;
  std::vector<speculation_stats> stats;
  std::chrono::nanoseconds time{};
  std::uint64_t num_foreseen = 0, num_ready = 0;
};

/// Requests with the drafter `name`, which needs `draft_cost` per level on a partition of its own.
ahead_run run_ahead(std::vector<ahead_mode> overlap, const std::string& name, std::uint32_t num_requests,
                    std::uint32_t length, float temperature,
                    verification_rule rule = verification_rule::coupled,
                    std::chrono::nanoseconds draft_cost = std::chrono::microseconds(500),
                    std::uint32_t max_tokens = 60, std::uint32_t num_partitions = 2) {
  virtual_clock* time = nullptr;
  simulation_options options;
  options.target = small_target();
  options.num_partitions = num_partitions;
  options.overlap = std::move(overlap);
  options.num_guesses = 2;
  options.num_blocks = 4096;
  options.context_length = 4096;
  auto inner = drafter_called(name, small_target());
  if (inner->traits().where != speculation::placement::worker)
    inner = placed(std::move(inner), speculation::placement::worker);
  std::vector<simulated_drafter> drafters;
  drafters.push_back(
      {std::make_unique<slow_drafter>(std::move(inner), time, draft_cost), length, num_partitions - 1});
  simulation sim(options, std::move(drafters));
  time = &sim.device().time();
  const auto begin = time->now();
  for (std::uint32_t n = 0; n < num_requests; ++n) {
    auto request = request_number(n, temperature, max_tokens);
    request.speculation.rule = rule;
    request.trace = true;
    sim.submit(std::move(request), drafter_index{1});
  }
  EXPECT_TRUE(sim.run());
  ahead_run out;
  out.time = time->now() - begin;
  for (std::uint32_t n = 0; n < num_requests; ++n) {
    out.tokens.push_back(sim.client(n).tokens);
    out.rounds.push_back(sim.client(n).rounds);
    out.stats.push_back(*sim.client(n).speculation);
  }
  out.num_foreseen = sim.scheduler().counters().drafters.at(1).num_foreseen;
  out.num_ready = sim.scheduler().counters().drafters.at(1).num_ready;
  return out;
}

TEST(overlap, a_draft_made_in_advance_is_the_one_that_would_have_been_made_afterwards) {
  // Compares every draft and every verdict, not only tokens: with rules that only keep a distribution, tokens
  // may differ.
  for (const std::string name :
       {"half_right", "model", "model_other", "model_other_dynamic", "self", "cascade", "model_foreign"})
    for (const auto rule :
         {verification_rule::coupled, verification_rule::rejection, verification_rule::block})
      for (const std::uint32_t length : {1U, 3U, 5U})
        for (const float temperature : {0.0F, 1.0F}) {
          if (rule == verification_rule::block && name.ends_with("dynamic")) continue; // a rule for chains
          SCOPED_TRACE(::testing::Message() << name << ", " << name_of(rule) << ", length " << length
                                            << ", temperature " << temperature);
          const auto off = run_ahead({ahead_mode::off}, name, 3, length, temperature, rule);
          const auto ahead = run_ahead({ahead_mode::ahead}, name, 3, length, temperature, rule);
          const auto outcomes = run_ahead({ahead_mode::outcomes}, name, 3, length, temperature, rule);
          for (const auto* one : {&ahead, &outcomes}) {
            ASSERT_EQ(one->tokens, off.tokens);
            for (std::size_t n = 0; n < off.stats.size(); ++n) {
              ASSERT_EQ(one->stats[n].num_rounds, off.stats[n].num_rounds);
              ASSERT_EQ(one->stats[n].acceptance_histogram, off.stats[n].acceptance_histogram);
            }
            ASSERT_GT(one->num_foreseen, 0U);
          }
          ASSERT_EQ(off.num_foreseen, 0U);
          if (name == "model") {
            ASSERT_GT(ahead.num_ready, 0U);
          }
          if (name == "model_other" && rule == verification_rule::coupled && temperature == 0) {
            ASSERT_GE(outcomes.num_ready, ahead.num_ready);
          }
        }
}

TEST(overlap, outcomes_are_ready_more_often_than_the_one_where_all_is_accepted) {
  std::uint64_t ahead = 0, outcomes = 0;
  for (std::uint32_t length = 1; length <= 4; ++length) {
    ahead += run_ahead({ahead_mode::ahead}, "self", 3, length, 0).num_ready;
    outcomes += run_ahead({ahead_mode::outcomes}, "self", 3, length, 0).num_ready;
  }
  EXPECT_GT(outcomes, ahead + ahead / 10);
}

TEST(overlap, drafting_ahead_gains_what_the_model_says) {
  // Here a verification of 4 rows takes 3.4 ms, a draft of 3 tokens 3 ms, and the guess with the draft after
  // it 4 ms.
  const auto off = run_ahead({ahead_mode::off}, "always_right", 1, 3, 0, verification_rule::coupled,
                             std::chrono::milliseconds(1), 800);
  const auto ahead = run_ahead({ahead_mode::ahead}, "always_right", 1, 3, 0, verification_rule::coupled,
                               std::chrono::milliseconds(1), 800);
  ASSERT_EQ(ahead.num_ready, ahead.num_foreseen);
  const double measured = static_cast<double>(off.time.count()) / static_cast<double>(ahead.time.count());
  const double predicted = speculation::overlap_gain(3.4, 3, 3.4, 4, 1);
  EXPECT_NEAR(measured, predicted, 0.03 * predicted);
}

TEST(overlap, the_trace_shows_drafts_that_were_made_while_the_round_before_was_verified) {
  for (const auto mode : {ahead_mode::off, ahead_mode::ahead}) {
    const auto run = run_ahead({mode}, "always_right", 1, 3, 0);
    const auto& rounds = run.rounds.at(0);
    std::size_t num_drafted = 0, num_during_pass = 0;
    for (std::size_t i = 1; i < rounds.size(); ++i) {
      const auto &before = rounds[i - 1], &round = rounds[i];
      EXPECT_LT(round.verified.begin, round.verified.end);
      EXPECT_GE(round.verified.begin, before.verified.end);
      ASSERT_EQ(round.drafted.has_value(), !round.draft_tokens.empty());
      if (!round.drafted) continue;
      ++num_drafted;
      const auto time = round.drafted->end - round.drafted->begin;
      EXPECT_GE(time, round.draft_tokens.size() * std::chrono::microseconds(500)) << "a level takes so long";
      EXPECT_LE(round.drafted->end, round.verified.begin);
      num_during_pass += round.drafted->begin < before.verified.end ? 1 : 0;
    }
    EXPECT_GT(num_drafted, 5U);
    EXPECT_EQ(num_during_pass, mode == ahead_mode::off ? 0 : run.num_ready);
  }
}

/// Microseconds of a pass and of each of its rows, and of a level of a draft and of each request in it.
struct device_costs {
  std::uint32_t pass, row, level, level_each;
};

struct batch_run {
  std::vector<std::vector<token_id>> tokens;
  std::chrono::nanoseconds time{};
  std::vector<scheduling::scheduler_counters::drafted_rounds> rounds; ///< [requests - 1]
  speculation::round_cost cost_of(std::uint32_t num_requests) const {
    const auto& same = rounds.at(num_requests - 1);
    const auto num = static_cast<double>(same.num);
    return {static_cast<double>(same.verification.count()) / num,
            static_cast<double>(same.drafting.count()) / num};
  }
};

constexpr std::uint32_t batch_draft_length = 3;

/// Requests of equal length whose draft tokens are all right, with a drafter on a partition of its own.
batch_run run_batch(overlap_request overlap, std::uint32_t num_requests, device_costs costs) {
  virtual_clock* time = nullptr;
  simulation_options options;
  options.target = small_target();
  options.num_partitions = 2;
  options.num_blocks = 8192;
  options.context_length = 4096;
  options.target_cost = [costs](std::uint64_t rows) {
    return std::chrono::microseconds(costs.pass + costs.row * rows);
  };
  auto inner = placed(drafter_called("always_right", small_target()), speculation::placement::worker);
  std::vector<simulated_drafter> drafters;
  drafters.push_back(
      {std::make_unique<slow_drafter>(std::move(inner), time, std::chrono::microseconds(costs.level),
                                      std::chrono::microseconds(costs.level_each)),
       batch_draft_length, 1});
  simulation sim(options, std::move(drafters));
  time = &sim.device().time();
  const auto begin = time->now();
  for (std::uint32_t n = 0; n < num_requests; ++n) {
    auto request = request_number(n, 0);
    request.stop.max_tokens = 401;
    request.speculation.overlap = overlap;
    sim.submit(std::move(request), drafter_index{1});
  }
  EXPECT_TRUE(sim.run());
  batch_run out;
  out.time = time->now() - begin;
  for (std::uint32_t n = 0; n < num_requests; ++n) out.tokens.push_back(sim.client(n).tokens);
  out.rounds = sim.scheduler().counters().drafted_by_requests;
  return out;
}

TEST(overlap, drafting_in_groups_gains_what_the_model_says) {
  // Passes bound by reading weights, by their rows, and by both; drafts that are cheap, as long as a pass,
  // and longer.
  std::uint32_t num_gains = 0, num_losses = 0;
  for (const auto& [pass, row] : {std::pair{3000U, 20U}, {100U, 400U}, {1500U, 150U}})
    for (const std::uint32_t num_requests : {2U, 3U, 4U, 8U})
      for (const double share : {0.1, 0.5, 1.0, 2.0})
        for (const bool each : {false, true}) {
          const auto verify = pass + row * num_requests * (batch_draft_length + 1);
          const auto level = static_cast<std::uint32_t>(share * verify / batch_draft_length);
          const device_costs costs{pass, row, each ? level / 4 : level,
                                   each ? 3 * level / (4 * num_requests) : 0};
          SCOPED_TRACE(::testing::Message() << "pass " << pass << " us and " << row << " a row, "
                                            << num_requests << " requests, draft " << share << " of a pass, "
                                            << (each ? "by requests" : "whatever the requests"));
          const auto off = run_batch(overlap_request::off, num_requests, costs);
          const auto groups = run_batch(overlap_request::groups, num_requests, costs);
          ASSERT_EQ(groups.tokens, off.tokens);
          const auto all = off.cost_of(num_requests);
          EXPECT_NEAR(all.verify, 1e3 * verify, 1);
          EXPECT_NEAR(all.draft, 1e3 * batch_draft_length * (costs.level + num_requests * costs.level_each),
                      1);
          const double predicted = speculation::groups_gain(
              all, groups.cost_of(num_requests - num_requests / 2), groups.cost_of(num_requests / 2));
          const double measured =
              static_cast<double>(off.time.count()) / static_cast<double>(groups.time.count());
          EXPECT_NEAR(measured, predicted, 0.03 * predicted);
          num_gains += measured > 1.1 ? 1 : 0;
          num_losses += measured < 0.9 ? 1 : 0;
        }
  EXPECT_GT(num_gains, 10U);
  EXPECT_GT(num_losses, 10U) << "where passes over half the rows take as long";
}

TEST(overlap, auto_is_as_fast_as_the_best_mode) { // including trials, over 600 rounds and more
  for (const std::string name : {"always_right", "always_wrong", "half_right"})
    for (const auto cost :
         {std::chrono::microseconds(10), std::chrono::microseconds(500), std::chrono::microseconds(3000)})
      for (const std::uint32_t partitions : {1U, 2U}) {
        SCOPED_TRACE(::testing::Message()
                     << name << ", " << cost.count() << " us a level, partitions " << partitions);
        const auto with = [&](std::vector<ahead_mode> modes) {
          return run_ahead(std::move(modes), name, 2, 3, 0, verification_rule::coupled, cost,
                           name == "always_right" ? 2400 : 900, partitions)
              .time.count();
        };
        const auto best =
            std::min({with({ahead_mode::off}), with({ahead_mode::ahead}), with({ahead_mode::outcomes})});
        EXPECT_LE(static_cast<double>(with({ahead_mode::off, ahead_mode::ahead, ahead_mode::outcomes})),
                  1.03 * static_cast<double>(best));
      }
}

} // namespace
} // namespace paceline
