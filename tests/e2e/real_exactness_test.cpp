// The guarantee with a real model, real threads and the whole engine: speculation changes no token.
#include "engine/probe.hpp"
#include "engine/snapshot.hpp"
#include "tests/e2e/real_model.hpp"
#include "tests/engine/generation.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>

namespace paceline::test::real_exactness_test {
namespace {

using testing::generation;

constexpr std::uint32_t max_tokens = 24;
constexpr std::uint32_t num_requests = 8;

struct setting {
  std::string drafter;
  std::uint32_t draft_length = 0;
  float temperature = 0;
  std::uint32_t concurrency = 1;
  std::uint32_t first_request = 0; ///< so that single requests vary
};

std::string describe(const setting& s) {
  return s.drafter + ", length " + std::to_string(s.draft_length) + ", temperature " +
         std::to_string(s.temperature) + ", " + std::to_string(s.concurrency) + " requests from number " +
         std::to_string(s.first_request);
}

bool full_grid() { return std::getenv("PACELINE_FULL_GRID") != nullptr; }

/// All settings, or the third of them whose numbers add up to a multiple of three, which still contains every
/// combination of three choices. (Overlap is the fifth choice, with a test for each mode.)
std::vector<setting> settings(config::overlap_mode overlap) {
  static const std::vector<std::string> drafters{"ngram", "wrong", "itself", "layers", "q2_k", "auto"};
  const std::vector<std::uint32_t> lengths =
      full_grid() ? std::vector{1U, 2U, 3U, 4U, 5U, 6U, 7U, 8U} : std::vector{1U, 4U, 8U};
  static const std::vector<std::uint32_t> concurrencies{1, 3, 8};
  std::vector<setting> out;
  for (std::uint32_t t = 0; t < 2; ++t)
    for (std::uint32_t c = 0; c < concurrencies.size(); ++c) {
      const auto temperature = static_cast<float>(t);
      out.push_back(
          {"none", 0, temperature, concurrencies[c], static_cast<std::uint32_t>(out.size()) % num_requests});
      for (std::uint32_t d = 0; d < drafters.size(); ++d)
        for (std::uint32_t l = 0; l < lengths.size(); ++l)
          if (full_grid() || (d + l + c + t + static_cast<std::uint32_t>(overlap)) % 3 == 0)
            out.push_back({drafters[d], lengths[l], temperature, concurrencies[c],
                           static_cast<std::uint32_t>(out.size()) % num_requests});
    }
  return out;
}

std::shared_ptr<const token_table> plain_tokens(const std::vector<generation_request>& requests) {
  return std::make_shared<const token_table>(decode_plainly(smollm2_file().value(), requests));
}

class real_exactness : public ::testing::TestWithParam<config::overlap_mode> {
 protected:
  void SetUp() override {
    if (!smollm2_file()) GTEST_SKIP() << "no smollm2.gguf in PACELINE_MODEL_DIR";
  }
};

/// Totals of the drafts of one setting.
struct totals {
  std::uint32_t drafted = 0, accepted = 0;
};

totals run(engine& runtime, const setting& s, const token_table& plain) {
  std::vector<generation> all(s.concurrency);
  std::vector<generation_request> requests;
  for (std::uint32_t i = 0; i < s.concurrency; ++i) {
    requests.push_back(real_request((s.first_request + i) % num_requests, s.temperature, max_tokens));
    requests.back().speculation.drafter = s.drafter;
    requests.back().speculation.draft_length = s.draft_length;
    runtime.submit(requests.back(), all[i].sink());
  }
  totals out;
  for (std::uint32_t i = 0; i < s.concurrency; ++i) {
    all[i].wait();
    EXPECT_EQ(all[i].tokens(), plain.at(requests[i].sampling.seed)) << describe(s) << ": request " << i;
    EXPECT_EQ(all[i].last().finish, finish_reason::length) << describe(s);
    EXPECT_FALSE(all[i].has_gap()) << describe(s);
    const auto figures = all[i].last().speculation.value_or(speculation_stats{});
    out.drafted += figures.num_draft_tokens;
    out.accepted += figures.num_accepted_tokens;
  }
  return out;
}

TEST_P(real_exactness, tokens_equal_plain_decoding) {
  std::vector<generation_request> requests;
  for (std::uint32_t n = 0; n < num_requests; ++n)
    for (const float temperature : {0.0F, 1.0F}) requests.push_back(real_request(n, temperature, max_tokens));
  const auto plain = plain_tokens(requests);
  auto started = engine_probe::start(real_engine_options(GetParam()), registry_with_wrong(plain));
  ASSERT_TRUE(started) << started.error().message();
  const auto grid = settings(GetParam());
  std::map<std::string, totals> by_drafter;
  for (const auto& s : grid) {
    const auto got = run(**started, s, *plain);
    if (HasFailure()) return; // one failed setting is enough
    by_drafter[s.drafter].drafted += got.drafted;
    by_drafter[s.drafter].accepted += got.accepted;
  }
  std::printf("%zu settings\n", grid.size());
  for (const auto& [name, sum] : by_drafter)
    std::printf("%-7s accepted %5u of %5u draft tokens\n", name.c_str(), sum.accepted, sum.drafted);
  if (GetParam() == config::overlap_mode::ahead || GetParam() == config::overlap_mode::outcomes) {
    std::uint64_t num_ready = 0;
    const auto snapshot = snapshot_at_rest(**started);
    for (const auto& d : snapshot.models.at(0).drafters) num_ready += d.num_ready;
    EXPECT_GT(num_ready, 0U) << "no draft was made in advance";
  }
  // Each drafter must be the named one; otherwise the grid would compare plain decoding with itself.
  EXPECT_EQ(by_drafter["none"].drafted, 0U);
  EXPECT_GT(by_drafter["wrong"].drafted, 0U);
  EXPECT_EQ(by_drafter["wrong"].accepted, 0U);
  EXPECT_GT(by_drafter["itself"].drafted, 0U);
  EXPECT_EQ(by_drafter["itself"].accepted, by_drafter["itself"].drafted);
  for (const auto* name : {"ngram", "layers", "q2_k"}) {
    EXPECT_GT(by_drafter[name].accepted, 0U) << name;
    EXPECT_LT(by_drafter[name].accepted, by_drafter[name].drafted) << name;
  }
}

/// Actors die while requests run; clients do not notice.
TEST_P(real_exactness, killed_actors_cost_no_token) {
  const std::vector<std::string> drafters{"layers", "q2_k", "ngram",
                                          "none"}; // layers is number 4, q2_k number 5
  const std::vector<std::string> victims{"target_verifier/0", "draft_worker/0/4", "draft_worker/0/5",
                                         "scheduler/0", "kv_pool"};
  std::vector<generation_request> requests;
  for (std::uint32_t i = 0; i < drafters.size(); ++i) {
    requests.push_back(real_request(i, i % 2 == 0 ? 1.0F : 0.0F, 32));
    requests.back().speculation.drafter = drafters[i];
    requests.back().speculation.draft_length = 3;
  }
  const auto plain = plain_tokens(requests);
  auto started = engine_probe::start(real_engine_options(GetParam()), registry_with_wrong(plain));
  ASSERT_TRUE(started) << started.error().message();
  engine_probe probe(**started);
  std::vector<generation> all(requests.size());
  for (std::size_t i = 0; i < all.size(); ++i) (*started)->submit(requests[i], all[i].sink());
  for (std::size_t v = 0; v < victims.size(); ++v) {
    all.back().wait_for_tokens(4 + 5 * v); // plain decoding is the slowest
    EXPECT_TRUE(probe.kill(victims[v])) << victims[v];
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i].wait();
    EXPECT_EQ(all[i].tokens(), plain->at(requests[i].sampling.seed)) << drafters[i];
    EXPECT_EQ(all[i].last().finish, finish_reason::length) << drafters[i];
    EXPECT_FALSE(all[i].has_gap()) << drafters[i];
  }
  EXPECT_TRUE((*started)->healthy());
  const auto figures = (*started)->snapshot();
  for (const auto& victim : victims) {
    const auto found = std::ranges::find(figures.actors, victim, &actor_gauges::name);
    ASSERT_NE(found, figures.actors.end()) << victim;
    EXPECT_EQ(found->num_restarts, 1U) << victim;
  }
}

const std::array<std::string, 4> overlap_names{"off", "groups", "ahead", "outcomes"};

INSTANTIATE_TEST_SUITE_P(overlap, real_exactness,
                         ::testing::Values(config::overlap_mode::off, config::overlap_mode::groups,
                                           config::overlap_mode::ahead, config::overlap_mode::outcomes),
                         [](const auto& tested) {
                           return overlap_names.at(static_cast<std::size_t>(tested.param));
                         });

} // namespace
} // namespace paceline::test::real_exactness_test
