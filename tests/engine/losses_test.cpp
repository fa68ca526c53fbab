// Actors that exceed their restart budget, on real threads: failures of one model do not affect the other.
#include "engine/probe.hpp"
#include "engine/snapshot.hpp"
#include "tests/engine/generation.hpp"
#include "tests/engine/worker_drafter.hpp"

#include <gtest/gtest.h>

#include <thread>

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
    if (g == &waits && g->last().finish == finish_reason::cancelled) continue; // it ended before the failure
    ASSERT_TRUE(g->last().failure);
    EXPECT_NE(g->last().failure->message().find(GetParam()), std::string::npos);
    EXPECT_NE(g->last().failure->message().find("out of service"), std::string::npos);
  }
  EXPECT_TRUE(engine->healthy()) << "the other model serves";
  const auto faults = engine->faults();
  ASSERT_EQ(faults.size(), 1U);
  EXPECT_EQ(faults[0].part, GetParam());
  EXPECT_EQ(faults[0].model, "hash");
  EXPECT_TRUE(faults[0].is_lost);
  for (const auto& actor : engine->snapshot().actors) EXPECT_EQ(actor.is_lost, actor.name == GetParam());
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

class lost_shared_actor : public ::testing::TestWithParam<std::string> {};

TEST_P(lost_shared_actor, ends_every_request_and_lets_the_engine_be_destroyed) {
  auto made = engine::start(two_models_without_restarts());
  ASSERT_TRUE(made);
  generation first, other;
  (*made)->submit(make_request(10, 480), first.sink());
  auto elsewhere = make_request(10, 480);
  elsewhere.model = "other";
  (*made)->submit(elsewhere, other.sink());
  first.wait_for_tokens(2);
  ASSERT_TRUE(engine_probe(**made).kill(GetParam()));
  for (const auto* g : {&first, &other}) {
    g->wait();
    ASSERT_TRUE(g->last().failure);
    EXPECT_NE(g->last().failure->message().find(GetParam()), std::string::npos);
  }
  EXPECT_FALSE((*made)->healthy()) << "no model serves";
  for (const auto& model : (*made)->snapshot().models) EXPECT_TRUE(model.is_out_of_service);
  snapshot_at_rest(**made); // does not wait for answers that will not come
  made->reset();
}

INSTANTIATE_TEST_SUITE_P(actors, lost_shared_actor, ::testing::Values("kv_pool", "fan_out"),
                         [](const auto& tested) { return tested.param; });

config::engine_options with_worker(config::engine_options options) {
  options.models[0].drafters.push_back(testing::drafter_of_kind("worker"));
  options.threads = options.partitions = 2;
  options.models[0].drafters[0].partition = 1;
  return options;
}

TEST(lost_draft_worker, leaves_its_model_decoding_plainly_and_the_engine_healthy) {
  testing::worker_watch watch;
  auto options = with_worker(two_models_without_restarts());
  options.models[0].hash.pass_work = 20'000;
  auto made = engine_probe::start(options, testing::registry_with_worker(watch));
  ASSERT_TRUE(made) << made.error().message();
  auto request = make_request(10, 200);
  generation plain, drafted, late;
  (*made)->submit(request, plain.sink());
  plain.wait();
  request.speculation.drafter = "worker";
  (*made)->submit(request, drafted.sink());
  drafted.wait_for_tokens(4);
  ASSERT_TRUE(engine_probe(**made).kill("draft_worker/0/1"));
  drafted.wait();
  while ((*made)->faults().empty()) std::this_thread::yield();
  const auto before = watch.num_drafts.load();
  (*made)->submit(request, late.sink());
  late.wait();
  EXPECT_EQ(watch.num_drafts, before);
  EXPECT_EQ(drafted.tokens(), plain.tokens());
  EXPECT_EQ(late.tokens(), plain.tokens());
  EXPECT_TRUE((*made)->healthy());
  const auto fault = (*made)->faults().at(0);
  EXPECT_EQ(fault.part, "draft_worker/0/1");
  EXPECT_EQ(fault.drafter, "worker");
  EXPECT_TRUE(fault.is_lost);
}

TEST(failing_drafter, is_named_with_its_reason) {
  testing::worker_watch watch;
  watch.broken = true;
  auto made = engine_probe::start(with_worker(hash_engine()), testing::registry_with_worker(watch));
  ASSERT_TRUE(made) << made.error().message();
  auto request = make_request(10, 20);
  request.speculation.drafter = "worker";
  generation g;
  (*made)->submit(request, g.sink());
  g.wait();
  EXPECT_EQ(g.tokens().size(), 20U);
  const auto drafter = snapshot_at_rest(**made).models.at(0).drafters.at(0);
  EXPECT_GE(drafter.num_failures, 1U);
  EXPECT_NE(drafter.last_failure.find("it is broken"), std::string::npos) << drafter.last_failure;
  const auto fault = (*made)->faults().at(0);
  EXPECT_EQ(fault.part, "drafter/0/1");
  EXPECT_EQ(fault.num, drafter.num_failures);
  EXPECT_EQ(fault.reason, drafter.last_failure);
  EXPECT_FALSE(fault.is_lost);
}

TEST(lost_supervisor, is_noticed_and_requests_go_on) {
  auto made = engine::start(hash_engine());
  ASSERT_TRUE(made);
  ASSERT_TRUE(engine_probe(**made).kill("supervisor"));
  while ((*made)->healthy()) std::this_thread::yield(); // hangs if nothing supervises it
  EXPECT_EQ((*made)->faults().at(0).part, "supervisor");
  generation g;
  (*made)->submit(make_request(10, 20), g.sink());
  g.wait();
  EXPECT_EQ(g.last().finish, finish_reason::length);
}

TEST(lost_drain, refuses_requests_all_the_same) {
  for (int i = 0; i < 20; ++i) {
    auto made = engine::start(hash_engine());
    ASSERT_TRUE(made);
    ASSERT_TRUE(engine_probe(**made).kill("scheduler/0")); // with the parts that depend on it
    EXPECT_TRUE((*made)->drain(std::chrono::seconds(60)));
    generation late;
    (*made)->submit(make_request(10, 5), late.sink());
    late.wait();
    ASSERT_TRUE(late.last().failure);
    EXPECT_EQ(late.last().failure->code(), errc::draining);
  }
}

} // namespace
} // namespace paceline
