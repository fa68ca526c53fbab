#include "tests/engine/generation.hpp"

#include "config/engine_options.hpp"
#include "engine/probe.hpp"
#include "engine/served_model.hpp"
#include "engine/snapshot.hpp"
#include "runtime/model/hash_model.hpp"
#include "runtime/tokenizer/tokenizer.hpp"
#include "tests/support/reference_beam_search.hpp"

#include <gtest/gtest.h>

namespace paceline {
namespace {

using testing::generation;
using testing::make_request;

config::engine_options engine_with_drafters() {
  auto options = testing::hash_engine();
  for (const char* kind : {"ngram", "suffix", "lookahead"}) {
    config::drafter_options drafter;
    drafter.name = drafter.kind = kind;
    drafter.ngram_min = 1;
    drafter.candidates = 3;
    options.models[0].drafters.push_back(drafter);
  }
  return options;
}

generation_request make_search(std::uint32_t n, std::uint32_t width, const std::string& drafter) {
  auto request = make_request(10 + n, 20, n, 1);
  request.beams = {.width = width, .num_best = width, .length_penalty = 1};
  request.speculation.drafter = drafter;
  return request;
}

void expect_found(const generation& got, const test::reference_beams& wanted) {
  const auto last = got.last();
  ASSERT_FALSE(last.failure) << last.failure->message();
  ASSERT_EQ(last.hypotheses.size(), wanted.best.size());
  for (std::size_t i = 0; i < wanted.best.size(); ++i)
    ASSERT_EQ(last.hypotheses[i].tokens, wanted.best[i].tokens) << i;
  ASSERT_EQ(got.tokens(), wanted.best.front().tokens);
  ASSERT_EQ(got.text(), last.hypotheses.front().text);
}

model::hash_model hash_target() {
  model::hash_model_config config;
  config.context_length = 512;
  return model::hash_model(config);
}

TEST(engine_beam_search, finds_the_same_with_every_drafter_and_beside_others) {
  auto started = engine::start(engine_with_drafters());
  ASSERT_TRUE(started) << started.error().message();
  const auto target = hash_target();
  std::vector<generation_request> requests;
  for (const std::string drafter : {"none", "ngram", "suffix", "lookahead", "auto", "default"})
    for (std::uint32_t width = 1; width <= 4; ++width)
      requests.push_back(make_search(static_cast<std::uint32_t>(requests.size()), width, drafter));
  const auto beside = make_request(20, 60, 3, 1);
  generation other;
  (*started)->submit(beside, other.sink());
  std::vector<generation> all(requests.size());
  for (std::size_t i = 0; i < all.size(); ++i) (*started)->submit(requests[i], all[i].sink());
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i].wait();
    SCOPED_TRACE(::testing::Message()
                 << requests[i].speculation.drafter << " width " << requests[i].beams.width);
    ASSERT_NO_FATAL_FAILURE(expect_found(all[i], test::search_beams(target, requests[i])));
  }
  other.wait();
  const auto figures = snapshot_at_rest(**started).models.at(0);
  for (const auto& pool : figures.pools) EXPECT_EQ(pool.active_blocks, 0U) << pool.name;
}

TEST(engine_beam_search, survives_the_death_of_any_actor) {
  auto options = engine_with_drafters();
  options.models[0].hash.pass_work = 20000;
  auto started = engine_probe::start(options, speculation::drafter_registry::with_built_in());
  ASSERT_TRUE(started) << started.error().message();
  engine_probe probe(**started);
  const auto request = make_search(1, 3, "lookahead");
  for (const char* victim : {"scheduler/0", "target_verifier/0", "kv_pool"}) {
    generation g;
    (*started)->submit(request, g.sink());
    EXPECT_TRUE(probe.kill(victim));
    g.wait();
    ASSERT_NO_FATAL_FAILURE(expect_found(g, test::search_beams(hash_target(), request))) << victim;
  }
}

TEST(engine_beam_search, a_stop_string_ends_a_hypothesis_and_is_cut_off) {
  auto started = engine::start(engine_with_drafters());
  ASSERT_TRUE(started) << started.error().message();
  auto request = make_search(2, 3, "none");
  generation whole;
  (*started)->submit(request, whole.sink());
  whole.wait();
  const auto text = whole.last().hypotheses.front().text;
  request.stop.stop_strings = {text.substr(text.size() / 2, 2)};
  std::vector<std::vector<token_id>> first;
  for (const char* drafter : {"none", "ngram", "lookahead"}) {
    request.speculation.drafter = drafter;
    generation g;
    (*started)->submit(request, g.sink());
    g.wait();
    bool stopped = false;
    std::vector<std::vector<token_id>> found;
    for (const auto& one : g.last().hypotheses) {
      found.push_back(one.tokens);
      stopped |= one.finish == finish_reason::stop;
      EXPECT_EQ(one.text.find(request.stop.stop_strings.front()), std::string::npos);
    }
    EXPECT_TRUE(stopped);
    if (first.empty()) first = found;
    EXPECT_EQ(found, first) << drafter;
  }
}

TEST(engine_beam_search, refuses_what_it_could_not_act_on) {
  auto started = engine::start(engine_with_drafters());
  ASSERT_TRUE(started) << started.error().message();
  auto request = make_search(2, 3, "none");
  request.sampling.temperature = 0.5F;
  generation g;
  (*started)->submit(request, g.sink());
  g.wait();
  ASSERT_TRUE(g.last().failure);
  EXPECT_EQ(g.last().failure->code(), errc::invalid_argument);
  EXPECT_NE(g.last().failure->message().find("temperature"), std::string::npos);
}

} // namespace
} // namespace paceline
