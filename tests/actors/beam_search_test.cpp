#include "tests/actors/requests.hpp"
#include "tests/support/beam_drafter.hpp"
#include "tests/support/reference_beam_search.hpp"

#include <gtest/gtest.h>

namespace paceline {
namespace {

using namespace test;

/// A beam search that is different for every `n`; every other one has tokens that end it.
generation_request search_number(std::uint32_t n, std::uint32_t width, std::uint32_t max_tokens = 16) {
  auto r = request_number(n, 1.0F, max_tokens);
  r.sampling.top_k = 0;
  r.beams.width = width;
  r.beams.num_best = 1 + n % width;
  r.beams.length_penalty = n % 3 == 0 ? 1.0F : n % 3 == 1 ? 0.0F : 2.0F;
  if (n % 2 == 1) {
    r.stop.stop_ids = {token_id{3}, token_id{17}, token_id{40}};
    r.sampling.logit_bias = {{token_id{17}, 1.5F}};
    r.stop.min_tokens = n % 4;
  }
  return r;
}

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

/// The beam drafter that is right, wrong, or wrong at a third of the positions; others by the name they have elsewhere.
std::unique_ptr<speculation::drafter> beam_drafter_called(const std::string& name,
                                                          const std::shared_ptr<const known_searches>& known) {
  const auto make = [&](auto wrong) { return make_beam_drafter(name, known, small_target().vocab_size, wrong); };
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
  return info.param.drafter + (info.param.worker ? "_worker" : "_inline") + (info.param.two_groups ? "_groups" : "_off");
}

class beam_grid : public ::testing::TestWithParam<beam_case> {};

/// The promise: with any drafter a beam search finds what one without cells, trees and drafts finds, whoever runs beside it.
TEST_P(beam_grid, hypotheses_equal_a_search_from_tokens_alone) {
  const auto& param = GetParam();
  std::uint32_t drafted = 0, accepted = 0;
  for (std::uint32_t width = 1; width <= 4; ++width)
    for (std::uint32_t length = 1; length <= (param.drafter == "none" ? 1U : 8U); ++length)
      for (const std::uint32_t concurrency : {1U, 3U, 8U}) {
        simulation_options options;
        options.seed = width * 1000 + length * 10 + concurrency;
        SCOPED_TRACE(::testing::Message() << "width " << width << " length " << length << " concurrency " << concurrency);
        options.shuffle = true;
        options.two_groups = param.two_groups;
        options.num_partitions = param.two_groups ? 2 : 1;
        options.target = small_target();
        auto known = std::make_shared<known_searches>();
        std::vector<simulated_drafter> drafters;
        if (param.drafter != "none") {
          auto made = beam_drafter_called(param.drafter, known);
          if (param.worker) made = placed(std::move(made), speculation::placement::worker);
          drafters.push_back({std::move(made), length, 1});
        }
        simulation sim(options, std::move(drafters));
        std::vector<generation_request> requests;
        for (std::uint32_t n = 0; n < concurrency; ++n) { // of three one is an ordinary request
          requests.push_back(n % 3 == 1 ? request_number(n, 1.0F) : search_number(n + options.seed, width));
          if (n % 3 != 1) known->emplace(request_id{n + 1}, search_beams(sim.target(), requests.back()));
          sim.submit(requests.back(), param.drafter == "none" ? 0 : 1);
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
        for (std::uint32_t p = 0; p < sim.pools().num_pools(); ++p)
          ASSERT_EQ(sim.pools().usage(kv::pool_id{p}).num_active, 0U) << "blocks leaked in pool " << p;
        ASSERT_EQ(sim.scheduler().counters().stale_drafts, 0U);
      }
  ASSERT_EQ(drafted == 0, param.drafter == "none" || param.drafter == "feature") << "features are of one row, not of each hypothesis";
  if (param.drafter == "always_right") {
    ASSERT_GT(accepted * 100, drafted * 99) << "a lease that comes late may cut a draft";
  }
  if (param.drafter == "always_wrong") {
    ASSERT_EQ(accepted, 0U);
  }
  if (param.drafter == "half_right" || param.drafter.starts_with("model") || param.drafter == "cascade") {
    ASSERT_GT(accepted, 0U);
    ASSERT_LT(accepted, drafted);
  }
}

INSTANTIATE_TEST_SUITE_P(drafters, beam_grid,
                         ::testing::Values(beam_case{"none"}, beam_case{"always_right"}, beam_case{"always_wrong"},
                                           beam_case{"half_right"}, beam_case{"ngram"}, beam_case{"ngram_tree"},
                                           beam_case{"suffix"}, beam_case{"lookahead"}, beam_case{"feature"},
                                           beam_case{"twins"}, beam_case{"nasd"},
                                           beam_case{"always_right", true, true}, beam_case{"half_right", true},
                                           beam_case{"model", true}, beam_case{"model_dynamic", true, true},
                                           beam_case{"model_other", true}, beam_case{"cascade", true},
                                           beam_case{"model_foreign_other_dynamic", true}),
                         name_of);

} // namespace
} // namespace paceline
