// Kills every actor repeatedly, in an engine that is assembled as for use, on real threads.
#include "engine/probe.hpp"
#include "engine/snapshot.hpp"
#include "tests/engine/generation.hpp"
#include "tests/engine/head_drafters.hpp"
#include "tests/engine/worker_drafter.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <string>
#include <vector>

namespace paceline {
namespace {

using testing::generation;
using testing::make_request;

constexpr std::uint32_t num_tokens = 120;

/// Two models; the first has worker drafters on cores of their own.
config::engine_options two_models() {
  auto options = testing::hash_engine();
  options.models[0].hash.pass_work = 10'000;
  options.models.push_back(options.models[0]);
  options.models[1].name = "other";
  options.models[0].drafters = {testing::drafter_of_kind("worker"), testing::drafter_of_kind("ngram")};
  for (const char* const head : testing::hash_heads)
    options.models[0].drafters.push_back(testing::drafter_of_kind(head));
  for (auto& drafter : options.models[0].drafters) drafter.partition = 1;
  options.threads = options.partitions = 2;
  options.max_restarts = 1000;
  return options;
}

/// Numbers of the first requests: a beam search, and a request with a worker.
constexpr std::size_t of_beam_search = 1, of_worker = 2;

std::vector<generation_request> requests_of_all_drafters() {
  std::vector<const char*> drafters{"none", "none", "worker", "ngram", "auto"};
  drafters.insert(drafters.end(), std::begin(testing::hash_heads), std::end(testing::hash_heads));
  std::vector<generation_request> all;
  for (const auto* const drafter : drafters) {
    const auto number = static_cast<std::uint32_t>(all.size());
    all.push_back(make_request(10, num_tokens, number, number % 2 == 0 ? 0.0F : 1.0F));
    all.back().speculation.drafter = drafter;
  }
  all[of_beam_search] = make_request(10, 30, of_beam_search);
  all[of_beam_search].beams = {.width = 3, .num_best = 3, .length_penalty = 1};
  all.push_back(make_request(10, num_tokens, static_cast<std::uint32_t>(all.size())));
  all.back().model = "other";
  return all;
}

struct life {
  std::vector<generation> outputs;
  std::vector<request_id> ids;
  std::uint32_t num_kills = 0;
};

/// All requests at once; `kill` is called whenever the first one grows.
template <class Kill>
life live_through(Kill kill) {
  testing::worker_watch watch;
  auto made =
      engine_probe::start(two_models(), testing::with_hash_heads(testing::registry_with_worker(watch)))
          .value();
  const auto requests = requests_of_all_drafters();
  life out;
  out.outputs.resize(requests.size());
  for (std::size_t i = 0; i < requests.size(); ++i)
    out.ids.push_back(made->submit(requests[i], out.outputs[i].sink()));
  engine_probe probe(*made);
  for (std::size_t wanted = 1; wanted < num_tokens; wanted += 8) {
    out.outputs[0].wait_for_tokens(wanted);
    if (out.outputs[0].is_done()) break;
    out.num_kills += kill(probe, out);
  }
  for (const auto& g : out.outputs) g.wait();
  // The pool may answer before it processes the scheduler's messages, so the question is repeated.
  std::uint64_t num_active = 1;
  for (int i = 0; i < 1000 && num_active > 0; ++i) {
    num_active = 0;
    for (const auto& model : snapshot_at_rest(*made).models)
      for (const auto& pool : model.pools) num_active += pool.active_blocks;
  }
  EXPECT_EQ(num_active, 0U) << "blocks leaked";
  EXPECT_TRUE(made->healthy());
  return out;
}

const life& undisturbed() {
  static const life plain = live_through([](auto&, auto&) { return false; });
  return plain;
}

TEST(undisturbed, has_drafts_of_every_learned_drafter) {
  const auto requests = requests_of_all_drafters();
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const auto& name = requests[i].speculation.drafter;
    if (std::ranges::find(testing::hash_heads, name) == std::end(testing::hash_heads)) continue;
    const auto figures = undisturbed().outputs[i].last().speculation.value_or(speculation_stats{});
    EXPECT_GT(figures.num_draft_tokens, 0U) << name;
    EXPECT_GT(figures.num_accepted_tokens, 0U) << name;
  }
}

class killed : public ::testing::TestWithParam<std::string> {};

TEST_P(killed, costs_no_token) {
  const auto disturbed = live_through([](engine_probe& probe, auto&) { return probe.kill(GetParam()); });
  EXPECT_GE(disturbed.num_kills, 4U);
  for (std::size_t i = 0; i < disturbed.outputs.size(); ++i) {
    const auto& got = disturbed.outputs[i];
    EXPECT_EQ(got.tokens(), undisturbed().outputs[i].tokens()) << "request " << i;
    EXPECT_EQ(got.last().finish, finish_reason::length) << "request " << i;
    EXPECT_FALSE(got.has_gap()) << "request " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(actors, killed,
                         ::testing::Values("scheduler/0", "scheduler/1", "target_verifier/0",
                                           "target_verifier/1", "draft_worker/0/1", "draft_worker/0/3",
                                           "draft_worker/0/4", "draft_worker/0/5", "draft_worker/0/6",
                                           "draft_worker/0/7", "kv_pool"),
                         [](const auto& tested) {
                           auto name = tested.param;
                           std::ranges::replace(name, '/', '_');
                           return name;
                         });

/// Requests that lost nothing have all tokens; the others end with a reason after output without a gap.
void expect_ends(const life& disturbed, const std::vector<std::size_t>& victims) {
  for (std::size_t i = 0; i < disturbed.outputs.size(); ++i) {
    const auto& got = disturbed.outputs[i];
    const auto tokens = got.tokens(), whole = undisturbed().outputs[i].tokens();
    EXPECT_FALSE(got.has_gap()) << "request " << i;
    if (got.last().finish == finish_reason::length) {
      EXPECT_EQ(tokens, whole) << "request " << i;
      continue;
    }
    EXPECT_TRUE(std::ranges::find(victims, i) != victims.end()) << "request " << i;
    ASSERT_TRUE(got.last().failure) << "request " << i;
    EXPECT_EQ(got.last().failure->code(), errc::device_lost);
    ASSERT_LE(tokens.size(), whole.size());
    EXPECT_TRUE(std::equal(tokens.begin(), tokens.end(), whole.begin())) << "request " << i;
  }
}

TEST(killed_session, ends_its_own_request_only) {
  const std::vector<std::size_t> victims{of_beam_search, of_worker};
  const auto disturbed = live_through([&](engine_probe& probe, const life& now) {
    bool any = false;
    for (const auto victim : victims) any |= probe.kill_session(now.ids[victim]);
    return any;
  });
  EXPECT_GE(disturbed.num_kills, 1U);
  expect_ends(disturbed, victims);
  EXPECT_EQ(disturbed.outputs[of_worker].last().finish, finish_reason::error);
}

TEST(killed_fan_out, ends_those_who_may_have_missed_events) {
  const auto disturbed = live_through([](engine_probe& probe, auto&) { return probe.kill("fan_out"); });
  EXPECT_GE(disturbed.num_kills, 1U);
  std::vector<std::size_t> anybody(disturbed.outputs.size());
  std::iota(anybody.begin(), anybody.end(), 0);
  expect_ends(disturbed, anybody);
  EXPECT_EQ(disturbed.outputs[0].last().finish, finish_reason::error);
}

} // namespace
} // namespace paceline
