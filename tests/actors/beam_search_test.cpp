#include "tests/actors/requests.hpp"
#include "tests/support/beam_drafter.hpp"
#include "tests/support/reference_beam_search.hpp"

#include <gtest/gtest.h>

#include <cstdio>

namespace paceline {
namespace {

using namespace test;

void expect_search(const simulated_client& client, const reference_beams& wanted) {
  ASSERT_EQ(client.hypotheses.size(), wanted.best.size());
  for (std::size_t i = 0; i < wanted.best.size(); ++i) {
    const auto& got = client.hypotheses[i];
    ASSERT_EQ(got.tokens, wanted.best[i].tokens) << "hypothesis " << i;
    ASSERT_EQ(got.finish, wanted.best[i].stopped ? finish_reason::stop : finish_reason::length);
    ASSERT_NEAR(got.logprob, wanted.best[i].logprob, 1e-5);
    ASSERT_NEAR(got.score, wanted.best[i].score, 1e-5);
  }
  ASSERT_EQ(client.tokens, wanted.best.front().tokens);
  ASSERT_EQ(client.num_ends, 1U);
  ASSERT_FALSE(client.gap);
}

/// The beam drafter that is right, wrong, or wrong at a third of the positions; other drafters by their usual
/// names.
std::unique_ptr<speculation::drafter>
beam_drafter_called(const std::string& name, const std::shared_ptr<const known_searches>& known) {
  const auto make = [&](auto wrong) {
    return make_beam_drafter(name, known, small_target().vocab_size, wrong);
  };
  if (name == "always_right") return make([](std::size_t) { return false; });
  if (name == "always_wrong") return make([](std::size_t) { return true; });
  if (name == "half_right") return make([](std::size_t at) { return at % 3 == 2; });
  return drafter_called(name, small_target());
}

struct beam_case {
  std::string drafter;
  bool worker = false;
  bool two_groups = false;
};
std::string name_of(const ::testing::TestParamInfo<beam_case>& info) {
  return info.param.drafter + (info.param.worker ? "_worker" : "_inline") +
         (info.param.two_groups ? "_groups" : "_off");
}

class beam_grid : public ::testing::TestWithParam<beam_case> {};

/// The guarantee: with any drafter, and beside any other requests, a beam search finds the result of a search
/// without cells, trees and drafts.
TEST_P(beam_grid, hypotheses_equal_a_search_from_tokens_alone) {
  const auto& param = GetParam();
  std::uint32_t drafted = 0, accepted = 0;
  for (std::uint32_t width = 1; width <= 4; ++width)
    for (std::uint32_t length = 1; length <= (param.drafter == "none" ? 1U : 8U); ++length)
      for (const std::uint32_t concurrency : {1U, 3U, 8U}) {
        simulation_options options;
        options.seed = width * 1000 + length * 10 + concurrency;
        SCOPED_TRACE(::testing::Message()
                     << "width " << width << " length " << length << " concurrency " << concurrency);
        options.shuffle = true;
        options.two_groups = param.two_groups;
        options.num_partitions = param.two_groups ? 2 : 1;
        options.target = small_target();
        options.target.recurrent = (width + length) % 2 == 0;
        auto known = std::make_shared<known_searches>();
        std::vector<simulated_drafter> drafters;
        if (param.drafter != "none") {
          auto made = beam_drafter_called(param.drafter, known);
          if (param.worker) made = placed(std::move(made), speculation::placement::worker);
          drafters.push_back({std::move(made), length, 1});
        }
        simulation sim(options, std::move(drafters));
        std::vector<generation_request> requests;
        for (std::uint32_t n = 0; n < concurrency; ++n) { // one of three is an ordinary request
          requests.push_back(n % 3 == 1 ? request_number(n, 1.0F) : search_number(n + options.seed, width));
          if (n % 3 != 1) known->emplace(request_id{n + 1}, search_beams(sim.target(), requests.back()));
          sim.submit(requests.back(), param.drafter == "none" ? plain_decoding : drafter_index{1});
        }
        ASSERT_TRUE(sim.run()) << sim.scheduler().describe();
        for (std::uint32_t n = 0; n < concurrency; ++n) {
          SCOPED_TRACE(::testing::Message() << "request " << n);
          if (n % 3 == 1) {
            ASSERT_EQ(sim.client(n).tokens, decode_plainly(sim.target(), requests[n]));
            continue;
          }
          ASSERT_NO_FATAL_FAILURE(expect_search(sim.client(n), known->at(request_id{n + 1})));
          drafted += sim.client(n).speculation->num_draft_tokens;
          accepted += sim.client(n).speculation->num_accepted_tokens;
        }
        ASSERT_EQ(sim.check_invariants(), "");
        for (const auto& [part, fault] : sim.faults()) FAIL() << fault.last.message();
        for (std::uint32_t p = 0; p < sim.pools().num_pools(); ++p)
          ASSERT_EQ(sim.pools().usage(kv::pool_id{p}).num_active, 0U) << "blocks leaked in pool " << p;
        ASSERT_EQ(sim.scheduler().counters().stale_drafts, 0U);
      }
  // Hypotheses have no probes, from which PPD learns.
  ASSERT_EQ(drafted == 0, param.drafter == "none" || param.drafter == "ppd");
  if (param.drafter == "always_right") {
    ASSERT_GT(accepted * 100, drafted * 99) << "a lease that comes late may cut a draft";
  }
  if (param.drafter == "always_wrong") {
    ASSERT_EQ(accepted, 0U);
  }
  if (param.drafter == "half_right" || param.drafter.starts_with("model") || param.drafter == "cascade" ||
      param.drafter.starts_with("head") || param.drafter == "feature") {
    ASSERT_GT(accepted, 0U);
    ASSERT_LT(accepted, drafted);
  }
}

INSTANTIATE_TEST_SUITE_P(
    drafters, beam_grid,
    ::testing::Values(beam_case{"none"}, beam_case{"always_right"}, beam_case{"always_wrong"},
                      beam_case{"half_right"}, beam_case{"ngram"}, beam_case{"ngram_tree"},
                      beam_case{"suffix"}, beam_case{"lookahead"}, beam_case{"ppd"}, beam_case{"feature"},
                      beam_case{"twins"}, beam_case{"nasd"}, beam_case{"always_right", true, true},
                      beam_case{"half_right", true}, beam_case{"model", true}, beam_case{"model_chain", true},
                      beam_case{"model_dynamic", true, true}, beam_case{"model_other", true},
                      beam_case{"cascade", true}, beam_case{"model_foreign_other_dynamic", true},
                      beam_case{"head", true}, beam_case{"head_dynamic", true, true},
                      beam_case{"head_path_static", true}, beam_case{"head_parallel_static", true, true}),
    name_of);

struct one_search {
  simulated_client client;
  std::uint64_t num_rounds = 0;
};

/// A search that is alone. `drafter`: one of `beam_drafter_called`, or "none".
one_search run_alone(const generation_request& request, const std::string& drafter = "none",
                     std::uint32_t length = 4, model::hash_model_config target = small_target()) {
  simulation_options options;
  options.target = target;
  auto known = std::make_shared<known_searches>();
  std::vector<simulated_drafter> drafters;
  if (drafter != "none") drafters.push_back({beam_drafter_called(drafter, known), length, 0});
  simulation sim(options, std::move(drafters));
  if (drafter != "none") known->emplace(request_id{1}, search_beams(sim.target(), request));
  sim.submit(request, drafter == "none" ? plain_decoding : drafter_index{1});
  EXPECT_TRUE(sim.run());
  EXPECT_EQ(sim.check_invariants(), "");
  EXPECT_EQ(sim.pools().usage(kv::pool_id{0}).num_active, 0U);
  EXPECT_NO_FATAL_FAILURE(expect_search(sim.client(0), search_beams(sim.target(), request)));
  return {sim.client(0), sim.scheduler().counters().num_rounds};
}

TEST(beam_search, one_hypothesis_is_decoding_at_temperature_0) {
  const model::hash_model target(small_target());
  for (std::uint32_t n = 0; n < 30; ++n) {
    SCOPED_TRACE(::testing::Message() << "request " << n);
    const auto request = search_number(n, 1);
    auto greedy = request;
    greedy.beams = {};
    greedy.sampling.temperature = 0;
    simulation_options options;
    options.target = small_target();
    simulation sim(options);
    sim.submit(request);
    sim.submit(greedy);
    ASSERT_TRUE(sim.run());
    ASSERT_EQ(sim.client(0).tokens, sim.client(1).tokens);
    ASSERT_EQ(sim.client(0).finish, sim.client(1).finish);
  }
}

TEST(beam_search, ties_go_to_the_better_hypothesis_and_then_to_the_lower_id) {
  auto flat = small_target();
  flat.sharpness = 0; // all tokens are equally likely
  auto request = search_number(0, 3, 5);
  request.sampling.repetition_penalty = 1;
  request.beams.num_best = 3;
  const auto found = run_alone(request, "none", 0, flat).client.hypotheses;
  std::vector<std::vector<token_id>> tokens;
  for (const auto& one : found) tokens.push_back(one.tokens);
  const token_id zero{0};
  EXPECT_EQ(tokens, (std::vector<std::vector<token_id>>{{zero, zero, zero, zero, zero},
                                                        {zero, zero, zero, zero, token_id{1}},
                                                        {zero, zero, zero, zero, token_id{2}}}));
}

TEST(beam_search, finds_a_likelier_text_than_temperature_0) {
  std::uint32_t better = 0;
  for (std::uint32_t n = 0; n < 20; n += 2) {
    auto wide = search_number(n, 4);
    wide.beams.length_penalty = 0;
    wide.beams.num_best = 4;
    auto narrow = wide;
    narrow.beams = {.width = 1, .num_best = 1, .length_penalty = 0};
    const auto best = run_alone(wide).client.hypotheses;
    for (std::size_t i = 1; i < best.size(); ++i) EXPECT_GE(best[i - 1].score, best[i].score);
    better += best.front().score > run_alone(narrow).client.hypotheses.front().score ? 1 : 0;
  }
  EXPECT_GT(better, 5U);
}

TEST(beam_search, drafts_that_are_right_save_rounds) {
  for (std::uint32_t width = 1; width <= 4; ++width) {
    const auto request = search_number(0, width, 24); // nothing ends it early
    const auto plain = run_alone(request).num_rounds;
    EXPECT_GE(plain, 24U);
    EXPECT_LT(2 * run_alone(request, "always_right", 4).num_rounds, plain) << "width " << width;
    EXPECT_LE(run_alone(request, "always_wrong", 4).num_rounds, plain + 1) << "width " << width;
  }
}

/// A model's draft is a tree as wide as the search, unless its shape is configured: a chain holds one of the
/// children with which a step continues.
TEST(beam_search, trees_of_a_model_save_more_rounds_than_chains) {
  for (std::uint32_t width = 2; width <= 4; ++width) {
    std::uint64_t rounds[3] = {};
    std::uint32_t accepted[3] = {};
    for (std::uint32_t n = 0; n < 12; n += 2) {
      const auto request = search_number(n, width, 24);
      const char* const drafters[] = {"none", "model_chain", "model"};
      for (std::size_t i = 0; i < 3; ++i) {
        const auto found = run_alone(request, drafters[i]);
        rounds[i] += found.num_rounds;
        accepted[i] += i > 0 ? found.client.speculation->num_accepted_tokens : 0;
      }
    }
    std::printf(
        "width %u: %llu rounds without drafts, %llu (%u draft tokens accepted) with chains, %llu (%u) with trees\n",
        width, static_cast<unsigned long long>(rounds[0]), static_cast<unsigned long long>(rounds[1]),
        accepted[1], static_cast<unsigned long long>(rounds[2]), accepted[2]);
    EXPECT_LT(10 * rounds[2], 8 * rounds[1]) << "width " << width;
    EXPECT_GT(accepted[2] * rounds[1], accepted[1] * rounds[2]) << "of a round";
  }
}

TEST(beam_search, more_hypotheses_than_the_first_step_has_tokens) {
  auto few = small_target();
  few.vocab_size = 3;
  auto request = search_number(0, 8, 6);
  for (auto& token : request.prompt.edit()) token.value %= 3;
  request.beams.num_best = 8;
  EXPECT_EQ(run_alone(request, "none", 0, few).client.hypotheses.size(), 8U);
}

TEST(beam_search, cells_of_dropped_hypotheses_are_used_again) {
  simulation_options options;
  options.target = small_target();
  options.block_size = 1;
  auto request = search_number(0, 4, 60);
  const auto longest = static_cast<std::uint32_t>(request.prompt.size()) + 4 * request.stop.max_tokens;
  options.num_blocks = longest;
  simulation sim(options);
  sim.submit(request);
  std::uint32_t most = 0;
  while (sim.client(0).finish == finish_reason::none && sim.step())
    most = std::max(most, sim.pools().usage(kv::pool_id{0}).num_active);
  ASSERT_TRUE(sim.run());
  expect_search(sim.client(0), search_beams(sim.target(), request));
  EXPECT_LT(most, longest * 2 / 3) << "hypotheses share most of their tokens";
}

TEST(beam_search, keeps_its_cells_when_drafts_are_rejected) {
  for (std::uint32_t n = 0; n < 40; n += 2) {
    simulation_options options;
    options.target = small_target();
    options.block_size = 1;
    auto known = std::make_shared<known_searches>();
    std::vector<simulated_drafter> drafters;
    drafters.push_back({beam_drafter_called("always_wrong", known), 1, 0, 1});
    simulation sim(options, std::move(drafters));
    const auto request = search_number(n, 4, 60);
    known->emplace(request_id{1}, search_beams(sim.target(), request));
    sim.submit(request, drafter_index{1});
    ASSERT_TRUE(sim.run());
    ASSERT_FALSE(sim.client(0).failure) << sim.client(0).failure->message();
    ASSERT_NO_FATAL_FAILURE(expect_search(sim.client(0), known->at(request_id{1}))) << n;
  }
}

TEST(beam_search, in_a_pool_for_one_they_take_turns_and_find_the_same) {
  std::uint64_t preemptions = 0;
  for (const std::string drafter : {"none", "half_right", "model_dynamic", "model"})
    for (const std::uint32_t block_size : {1U, 4U, 16U})
      for (std::uint32_t width = 2; width <= 4; ++width) {
        SCOPED_TRACE(::testing::Message() << drafter << " block size " << block_size << " width " << width);
        std::vector<generation_request> requests;
        std::uint32_t largest = 0;
        for (std::uint32_t n = 0; n < 4; ++n) {
          requests.push_back(n == 3 ? request_number(n, 1.0F) : search_number(2 * n, width, 20));
          largest = std::max(largest, static_cast<std::uint32_t>(requests[n].prompt.size()) +
                                          width * requests[n].stop.max_tokens);
        }
        simulation_options options;
        options.target = small_target();
        options.block_size = block_size;
        options.num_blocks = (largest + block_size - 1) / block_size; // exactly enough cells
        auto known = std::make_shared<known_searches>();
        std::vector<simulated_drafter> drafters;
        if (drafter != "none") drafters.push_back({beam_drafter_called(drafter, known), 3, 0});
        simulation sim(options, std::move(drafters));
        for (std::uint32_t n = 0; n < 4; ++n) {
          if (n < 3) known->emplace(request_id{n + 1}, search_beams(sim.target(), requests[n]));
          sim.submit(requests[n], drafter == "none" ? plain_decoding : drafter_index{1});
        }
        ASSERT_TRUE(sim.run()) << sim.scheduler().describe();
        for (std::uint32_t n = 0; n < 3; ++n)
          ASSERT_NO_FATAL_FAILURE(expect_search(sim.client(n), known->at(request_id{n + 1})));
        ASSERT_FALSE(sim.client(3).failure) << sim.client(3).failure->message();
        ASSERT_EQ(sim.client(3).tokens, decode_plainly(sim.target(), requests[3]));
        ASSERT_EQ(sim.check_invariants(), "");
        ASSERT_EQ(sim.pools().usage(kv::pool_id{0}).num_active, 0U);
        preemptions += sim.scheduler().counters().num_preemptions;
      }
  EXPECT_GT(preemptions, 0U);
}

TEST(beam_search, cancelled_at_any_step_it_leaves_nothing_behind) {
  for (const std::string drafter : {"none", "always_right", "model"}) {
    auto cancel_after = [&](std::size_t num_steps) {
      simulation_options options;
      options.target = small_target();
      auto known = std::make_shared<known_searches>();
      std::vector<simulated_drafter> drafters;
      if (drafter != "none") drafters.push_back({beam_drafter_called(drafter, known), 3, 0});
      simulation sim(options, std::move(drafters));
      const auto request = search_number(0, 3, 8);
      const auto beside = request_number(1, 1.0F, 8);
      known->emplace(request_id{1}, search_beams(sim.target(), request));
      sim.submit(request, drafter == "none" ? plain_decoding : drafter_index{1});
      sim.submit(beside, drafter == "none" ? plain_decoding : drafter_index{1});
      bool more = true;
      for (std::size_t i = 0; i < num_steps && more; ++i) more = sim.step();
      sim.cancel(0);
      EXPECT_TRUE(sim.run());
      EXPECT_EQ(sim.client(0).num_ends, 1U);
      if (sim.client(0).finish == finish_reason::cancelled)
        EXPECT_TRUE(sim.client(0).tokens.empty()) << "nothing is said before the end";
      else
        expect_search(sim.client(0), known->at(request_id{1}));
      EXPECT_EQ(sim.client(1).tokens, decode_plainly(sim.target(), beside));
      EXPECT_EQ(sim.check_invariants(), "");
      for (std::uint32_t p = 0; p < sim.pools().num_pools(); ++p)
        EXPECT_EQ(sim.pools().usage(kv::pool_id{p}).num_active, 0U);
      return more;
    };
    std::size_t num_steps = 0;
    while (cancel_after(num_steps) && !HasFailure()) ++num_steps;
    EXPECT_GT(num_steps, 50U);
  }
}

TEST(beam_search, that_can_never_fit_is_refused_with_both_numbers) {
  simulation_options options;
  options.target = small_target();
  options.num_blocks = 10;
  simulation sim(options);
  sim.submit(search_number(0, 4, 16)); // one hypothesis would fit
  ASSERT_TRUE(sim.run());
  ASSERT_TRUE(sim.client(0).failure);
  EXPECT_EQ(sim.client(0).failure->code(), errc::context_length_exceeded);
  EXPECT_NE(sim.client(0).failure->message().find("has 40"), std::string::npos);
}

} // namespace
} // namespace paceline
