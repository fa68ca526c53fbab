// Actors beyond their restart budget, on real threads: one model's do not concern the other's.
#include "engine/probe.hpp"
#include "tests/engine/generation.hpp"

#include <gtest/gtest.h>

namespace paceline {
namespace {

using testing::generation;
using testing::hash_engine;
using testing::make_request;

config::engine_options two_models_without_restarts() {
  auto options = hash_engine();
  options.models[0].hash.pass_work = 100'000; // it is still decoding when its actor fails
  options.models.push_back(options.models[0]);
  options.models[1].name = "other";
  options.max_restarts = 0;
  return options;
}

class lost_actor : public ::testing::TestWithParam<std::string> {};

TEST_P(lost_actor, ends_its_models_requests_and_the_other_model_goes_on) {
  auto made = engine::start(two_models_without_restarts());
  ASSERT_TRUE(made) << made.error().message();
  auto& engine = *made;
  generation first, waits, other;
  engine->submit(make_request(10, 480), first.sink());
  const auto id = engine->submit(make_request(10, 480, 1), waits.sink());
  auto elsewhere = make_request(10, 60);
  elsewhere.model = "other";
  engine->submit(elsewhere, other.sink());
  first.wait_for_tokens(2);
  ASSERT_TRUE(engine_probe(*engine).kill(GetParam()));
  first.wait();
  engine->cancel(id);
  waits.wait();
  for (const auto* g : {&first, &waits}) {
    if (g == &waits && g->last().finish == finish_reason::cancelled) continue; // it was quicker
    ASSERT_TRUE(g->last().failure);
    EXPECT_NE(g->last().failure->message().find(GetParam()), std::string::npos);
    EXPECT_NE(g->last().failure->message().find("out of service"), std::string::npos);
  }
  EXPECT_FALSE(engine->healthy());
  generation late;
  engine->submit(make_request(10, 5), late.sink());
  late.wait();
  ASSERT_TRUE(late.last().failure);
  EXPECT_NE(late.last().failure->message().find("out of service"), std::string::npos);
  other.wait();
  EXPECT_EQ(other.last().finish, finish_reason::length);
  EXPECT_EQ(other.tokens().size(), 60U);
}

INSTANTIATE_TEST_SUITE_P(actors, lost_actor, ::testing::Values("scheduler/0", "target_verifier/0"),
                         [](const auto& tested) {
                           return tested.index == 0 ? "scheduler" : "target_verifier";
                         });

TEST(lost_fan_out, ends_every_request_and_lets_the_engine_be_destroyed) {
  auto made = engine::start(two_models_without_restarts());
  ASSERT_TRUE(made);
  generation first, other;
  (*made)->submit(make_request(10, 480), first.sink());
  auto elsewhere = make_request(10, 480);
  elsewhere.model = "other";
  (*made)->submit(elsewhere, other.sink());
  first.wait_for_tokens(2);
  ASSERT_TRUE(engine_probe(**made).kill("fan_out"));
  for (const auto* g : {&first, &other}) {
    g->wait();
    ASSERT_TRUE(g->last().failure);
    EXPECT_NE(g->last().failure->message().find("fan_out"), std::string::npos);
  }
  made->reset();
}

} // namespace
} // namespace paceline
