#include "tests/actors/requests.hpp"

#include <gtest/gtest.h>

namespace paceline {
namespace {

using namespace test;

TEST(scheduling, a_long_prompt_does_not_pause_running_streams_beyond_max_gap) {
  simulation_options options;
  options.target = small_target();
  options.context_length = 4096;
  options.num_blocks = 4096;
  options.max_gap = std::chrono::milliseconds(200);
  options.target_cost = [](std::uint64_t rows) {
    return std::chrono::microseconds(5000 + 1500 * rows);
  }; // 750 ms for 500 rows
  simulation sim(options);
  sim.submit(request_number(0, 0.0F, 200));
  while (sim.client(0).tokens.size() < 20) ASSERT_TRUE(sim.step());
  auto big = request_number(1, 0.0F, 4);
  for (int i = 0; i < 3000; ++i) big.prompt.emplace_back(i % 60);
  sim.submit(big);
  ASSERT_TRUE(sim.run(20'000'000));
  std::chrono::nanoseconds longest{};
  const auto& at = sim.client(0).arrivals;
  for (std::size_t i = 1; i < at.size(); ++i)
    longest = std::max<std::chrono::nanoseconds>(longest, at[i] - at[i - 1]);
  EXPECT_LT(longest, options.max_gap);
  EXPECT_GT(longest, options.max_gap / 4) << "the prompt hardly advanced";
  EXPECT_EQ(sim.client(1).tokens, decode_plainly(sim.target(), big));
}

TEST(scheduling, a_full_pool_queues_or_preempts_and_everybody_finishes) {
  simulation_options options;
  options.target = small_target();
  options.block_size = 4;
  options.num_blocks = 14; // the longest request needs 12
  options.max_running = 8;
  simulation sim(options);
  std::vector<generation_request> requests;
  for (std::uint32_t n = 0; n < 24; ++n) {
    requests.push_back(request_number(n, n % 2 == 0 ? 0.0F : 1.0F, 18));
    sim.submit(requests.back());
  }
  ASSERT_TRUE(sim.run());
  for (std::uint32_t n = 0; n < requests.size(); ++n)
    EXPECT_EQ(sim.client(n).tokens, decode_plainly(sim.target(), requests[n])) << n;
  EXPECT_GT(sim.scheduler().counters().num_preemptions, 0U);
  EXPECT_LE(sim.scheduler().counters().num_preemptions, 10 * requests.size());
  EXPECT_EQ(sim.check_invariants(), "");
}

TEST(scheduling, a_request_that_fills_the_pool_runs_beside_its_own_cached_prefix) {
  simulation_options options;
  options.target = small_target();
  options.block_size = 16;
  options.num_blocks = 4;
  options.context_length = 57;
  simulation sim(options);
  auto request = request_number(1, 0.0F);
  request.stop.max_tokens = 57 - static_cast<std::uint32_t>(request.prompt.size());
  for (std::size_t i = 0; i < 3; ++i) {
    sim.submit(request);
    ASSERT_TRUE(sim.run(100'000)) << sim.scheduler().describe();
    EXPECT_EQ(sim.client(i).tokens, decode_plainly(sim.target(), request)) << i;
  }
  EXPECT_EQ(sim.scheduler().counters().num_preemptions, 0U) << "nobody was in its way";
  EXPECT_EQ(sim.check_invariants(), "");
}

/// Any request that fits the pool by its declared size runs repeatedly, beside what its previous runs left in
/// the cache.
TEST(scheduling, a_request_alone_in_a_pool_of_its_size_always_finishes_without_preemption) {
  constexpr std::uint32_t num_positions = 57;
  for (const std::uint32_t block_size : {1U, 4U, 16U})
    for (const std::uint32_t prompt : {1U, 7U, 15U, 16U, 17U, 32U, 47U, 48U, 49U, 52U, 56U})
      for (const std::uint32_t spare : {0U, 1U, 8U})
        for (const std::uint32_t draft_length : {0U, 4U}) {
          if (prompt + spare >= num_positions) continue;
          SCOPED_TRACE(::testing::Message() << "block size " << block_size << " prompt " << prompt
                                            << " spare " << spare << " draft length " << draft_length);
          simulation_options options;
          options.target = small_target();
          options.block_size = block_size;
          options.context_length = num_positions;
          options.num_blocks = (num_positions + block_size - 1) / block_size;
          std::vector<simulated_drafter> drafters;
          drafters.push_back({drafter_called("half_right", small_target()), draft_length, 0});
          simulation sim(options, std::move(drafters));
          auto request = request_number(1, 0.0F);
          request.prompt.clear();
          for (std::uint32_t i = 0; i < prompt; ++i)
            request.prompt.emplace_back(static_cast<std::int32_t>(i * 11 % 60));
          request.stop.max_tokens = num_positions - spare - prompt;
          for (std::size_t i = 0; i < 3; ++i) {
            sim.submit(request, draft_length > 0 ? drafter_index{1} : plain_decoding);
            ASSERT_TRUE(sim.run(100'000)) << sim.scheduler().describe();
            ASSERT_EQ(sim.client(i).finish, finish_reason::length) << i;
            ASSERT_EQ(sim.client(i).tokens, decode_plainly(sim.target(), request)) << i;
          }
          ASSERT_EQ(sim.scheduler().counters().num_preemptions, 0U);
          ASSERT_EQ(sim.check_invariants(), "");
        }
}

TEST(scheduling, three_long_requests_in_a_pool_for_two_end_with_the_texts_they_have_alone) {
  for (const std::string drafter : {"none", "half_right", "tree", "model"})
    for (const std::uint32_t block_size : {1U, 4U, 16U}) {
      SCOPED_TRACE(::testing::Message() << drafter << ", block size " << block_size);
      simulation_options options;
      options.target = small_target();
      options.block_size = block_size;
      options.max_running = 3;
      options.num_blocks = 2 * 96 / block_size;
      std::vector<simulated_drafter> drafters;
      if (drafter != "none") drafters.push_back({drafter_called(drafter, small_target()), 3, 0});
      simulation sim(options, std::move(drafters));
      std::vector<generation_request> requests;
      for (std::uint32_t n = 0; n < 3; ++n) {
        requests.push_back(request_number(n, n == 1 ? 0.0F : 1.0F));
        requests[n].stop.max_tokens = 96 - static_cast<std::uint32_t>(requests[n].prompt.size());
        sim.submit(requests[n], drafter == "none" ? plain_decoding : drafter_index{1});
      }
      ASSERT_TRUE(sim.run()) << sim.scheduler().describe();
      for (std::uint32_t n = 0; n < 3; ++n) {
        EXPECT_EQ(sim.client(n).finish, finish_reason::length) << n;
        EXPECT_EQ(sim.client(n).tokens, decode_plainly(sim.target(), requests[n])) << n;
        EXPECT_FALSE(sim.client(n).gap);
      }
      const auto& counters = sim.scheduler().counters();
      EXPECT_GT(counters.num_preemptions, 0U);
      EXPECT_LE(counters.num_preemptions, 6U) << "who was set back waits until there is room";
      EXPECT_EQ(counters.num_admitted, 3 + counters.num_preemptions) << "and comes back as often as it went";
      EXPECT_EQ(sim.check_invariants(), "");
      EXPECT_EQ(sim.pools().usage(kv::pool_id{0}).num_active, 0U);
    }
}

TEST(scheduling, draft_trees_shrink_before_anybody_waits_for_memory) {
  for (const std::uint32_t block_size : {1U, 4U, 16U})
    for (const bool worker : {false, true}) {
      simulation_options options;
      options.target = small_target();
      options.block_size = block_size;
      options.max_running = 2;
      // Two requests of 80 positions fit exactly. A tree of 60 nodes would take half of that in addition.
      options.num_blocks = 2 * 80 / block_size;
      auto tree = drafter_called("tree", small_target());
      if (worker) tree = placed(std::move(tree), speculation::placement::worker);
      std::vector<simulated_drafter> drafters;
      drafters.push_back({std::move(tree), 20, 0});
      simulation sim(options, std::move(drafters));
      std::vector<generation_request> requests;
      for (std::uint32_t n = 0; n < 2; ++n) {
        requests.push_back(request_number(n, 1.0F));
        requests[n].stop.max_tokens = 80 - static_cast<std::uint32_t>(requests[n].prompt.size());
        sim.submit(requests[n], drafter_index{1});
      }
      while (sim.client(0).tokens.empty() || sim.client(1).tokens.empty()) ASSERT_TRUE(sim.step());
      EXPECT_EQ(sim.client(0).finish, finish_reason::none) << "they should run beside each other";
      EXPECT_EQ(sim.client(1).finish, finish_reason::none);
      ASSERT_TRUE(sim.run());
      for (std::uint32_t n = 0; n < 2; ++n)
        EXPECT_EQ(sim.client(n).tokens, decode_plainly(sim.target(), requests[n])) << n;
      EXPECT_EQ(sim.scheduler().counters().num_preemptions, 0U);
      EXPECT_EQ(sim.check_invariants(), "");
    }
}

TEST(scheduling, a_request_that_can_never_fit_is_refused_with_both_numbers) {
  simulation_options options;
  options.target = small_target();
  options.num_blocks = 4;
  simulation sim(options);
  sim.submit(request_number(0, 0.0F, 100));
  ASSERT_TRUE(sim.run());
  EXPECT_EQ(sim.client(0).failure->code(), errc::context_length_exceeded);
  EXPECT_NE(sim.client(0).failure->message().find("has 16"), std::string::npos);
}

TEST(scheduling, a_full_queue_refuses_and_a_drained_scheduler_too) {
  simulation_options options;
  options.target = small_target();
  options.max_running = 1;
  options.max_waiting = 2;
  simulation sim(options);
  for (std::uint32_t n = 0; n < 6; ++n) sim.submit(request_number(n, 0.0F));
  ASSERT_TRUE(sim.run());
  std::uint32_t refused = 0;
  for (std::size_t n = 0; n < 6; ++n)
    refused += sim.client(n).failure && sim.client(n).failure->code() == errc::queue_full;
  EXPECT_GE(refused, 3U);
  EXPECT_EQ(sim.client(0).finish, finish_reason::length);
}

TEST(scheduling, a_client_without_credit_is_paused_to_the_token) {
  simulation_options options;
  options.target = small_target();
  std::vector<simulated_drafter> drafters;
  drafters.push_back({drafter_called("always_right", small_target()), 6, 0});
  simulation sim(options, std::move(drafters));
  const auto request = request_number(0, 1.0F, 40);
  sim.submit(request, drafter_index{1}, 7);
  for (int i = 0; i < 500; ++i) sim.step();
  EXPECT_EQ(sim.client(0).tokens.size(), 7U);
  sim.grant(0, 5);
  for (int i = 0; i < 500; ++i) sim.step();
  EXPECT_EQ(sim.client(0).tokens.size(), 12U);
  sim.grant(0, 1000);
  ASSERT_TRUE(sim.run());
  EXPECT_EQ(sim.client(0).tokens, decode_plainly(sim.target(), request));
}

TEST(scheduling, the_depth_of_a_mailbox_is_that_of_the_last_message_taken) {
  simulation_options options;
  options.target = small_target();
  simulation sim(options);
  for (std::uint32_t n = 0; n < 5; ++n) sim.submit(request_number(n, 0.0F, 10));
  std::uint64_t deepest = 0;
  while (sim.step()) deepest = std::max(deepest, sim.mailbox_depth("scheduler/0"));
  EXPECT_GT(deepest, 0U);
  for (const auto* actor : {"scheduler/0", "target_verifier/0", "kv_pool", "fan_out"})
    EXPECT_EQ(sim.mailbox_depth(actor), 0U) << actor;
}

TEST(scheduling, a_request_past_its_deadline_ends) {
  simulation_options options;
  options.target = small_target();
  simulation sim(options);
  auto request = request_number(0, 0.0F, 200);
  request.timeout = std::chrono::milliseconds(150);
  sim.submit(request);
  ASSERT_TRUE(sim.run());
  EXPECT_EQ(sim.client(0).failure->code(), errc::deadline_exceeded);
  EXPECT_LT(sim.client(0).tokens.size(), 200U);
}

TEST(scheduling, a_text_beyond_its_drafters_context_is_decoded_without_drafts) {
  for (const std::string name : {"model", "head", "head_block", "head_dynamic"}) {
    SCOPED_TRACE(name);
    simulation_options options;
    options.target = small_target();
    std::vector<simulated_drafter> drafters;
    drafters.push_back({drafter_called(name, small_target(40)), 3, 0});
    simulation sim(options, std::move(drafters));
    auto request = request_number(0, 0.0F, 100); // the prompt has 5 tokens
    sim.submit(request, drafter_index{1});
    request.beams = {.width = 2, .num_best = 1, .length_penalty = 1};
    request.sampling = search_number(0, 2).sampling;
    sim.submit(request, drafter_index{1});
    ASSERT_TRUE(sim.run());
    EXPECT_EQ(sim.client(0).tokens, decode_plainly(sim.target(), request_number(0, 0.0F, 100)));
    EXPECT_GE(sim.client(0).speculation->num_accepted_tokens, 9U) << "up to there it drafts";
    const auto num_programs = std::ranges::count(sim.device().spans(), "draft", &device_span::label);
    EXPECT_LT(num_programs, 60) << "rounds wait for a drafter that cannot draft";
    EXPECT_EQ(sim.check_invariants(), "");
  }
}

} // namespace
} // namespace paceline
