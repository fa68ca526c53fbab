// Random runs of engines: requests of every kind arrive, and the engine is destroyed at any moment; by then
// every request has had exactly one final event. PACELINE_ENGINE_LIVES sets the number of runs.
#include "engine/probe.hpp"
#include "tests/engine/generation.hpp"
#include "tests/engine/head_drafters.hpp"
#include "tests/engine/worker_drafter.hpp"

#include <caf/all.hpp>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <optional>
#include <random>
#include <thread>

namespace paceline {
namespace {

using testing::hash_engine;
using testing::make_request;

std::uint64_t num_lives() {
  const char* wanted = std::getenv("PACELINE_ENGINE_LIVES");
  return wanted ? std::strtoull(wanted, nullptr, 10) : 300;
}

/// What one request's sink received. Outlives its engine.
struct listener {
  std::atomic<std::uint32_t> num_events{0};
  std::atomic<std::uint32_t> num_ends{0};
  std::atomic<std::uint32_t> num_late{0}; ///< calls after the engine was gone
  std::atomic<finish_reason> finish{finish_reason::none};
  std::atomic<bool> engine_gone{false};
};

event_sink sink_of(const std::shared_ptr<listener>& to) {
  return [to](const token_event& event) {
    if (to->engine_gone) ++to->num_late;
    ++to->num_events;
    if (event.finish == finish_reason::none) return;
    to->finish = event.finish;
    ++to->num_ends;
  };
}

class system_configuration final : public caf::actor_system_config {
 public:
  system_configuration() {
    engine::prepare(*this);
    set("scheduler.policy", caf::atom("sharing"));
    set("scheduler.max-threads", std::size_t{2});
  }
};

/// Few requests run together, so that others wait. There is a second model, and drafters with streams of
/// their own on the same cores or others.
config::engine_options small_engine(std::mt19937_64& random) {
  auto options = hash_engine();
  auto& model = options.models[0];
  model.max_running = 1 + static_cast<std::uint32_t>(random() % 4);
  model.max_waiting = 4;
  model.hash.pass_work = random() % 3 == 0 ? 20'000 : 0;
  model.drafters = {testing::drafter_of_kind("ngram"), testing::drafter_of_kind("worker")};
  options.threads = options.partitions = 1 + static_cast<std::uint32_t>(random() % 2);
  for (const char* const head : testing::hash_heads) model.drafters.push_back(testing::drafter_of_kind(head));
  for (auto& drafter : model.drafters) drafter.partition = options.partitions - 1;
  options.max_restarts = std::array{0U, 1U, 10U}[random() % 3];
  if (random() % 3 == 0) {
    options.models.push_back(model);
    options.models[1].name = "other";
  }
  options.actor_threads = 1 + static_cast<std::uint32_t>(random() % 2);
  return options;
}

generation_request any_request(std::mt19937_64& random) {
  const auto salt = static_cast<std::uint32_t>(random() % 1000);
  switch (random() % 10) {
  case 0: // refused: breaks a rule of validation
  {
    auto r = make_request(4, 4);
    r.sampling.top_p = 7;
    return r;
  }
  case 1: { // refused: there is no such model
    auto r = make_request(4, 4);
    r.model = "nobody";
    return r;
  }
  case 2:
    return make_request(5, 2, salt); // ends soon
  case 3:
    return make_request(460, 30, salt); // with a long prompt
  case 4: {
    auto r = make_request(10, 400, salt);
    r.speculation.drafter = "ngram";
    return r;
  }
  case 5: {
    auto r = make_request(10, 400, salt);
    r.speculation.drafter = "worker";
    return r;
  }
  case 6: { // refused where there is no such model
    auto r = make_request(20, 100, salt);
    r.model = "other";
    r.speculation.drafter = "auto";
    return r;
  }
  case 7: {
    auto r = make_request(10, 60, salt);
    r.beams = {.width = 3, .num_best = 2, .length_penalty = 1};
    return r;
  }
  case 8: {
    auto r = make_request(20, 100, salt);
    r.speculation.drafter = testing::hash_heads[salt % std::size(testing::hash_heads)];
    return r;
  }
  default:
    return make_request(20, 450, salt);
  }
}

/// 3 tokens, unlimited, or as the engine grants.
flow_control any_flow(std::mt19937_64& random) {
  if (random() % 3 == 0) return {};
  return {.initial_credit = random() % 3 == 0 ? 3U : 1U << 30};
}

/// Some actors crash, within or beyond their budgets.
void kill_some(engine& runtime, std::mt19937_64& random) {
  static const std::array victims{"scheduler/0",       "target_verifier/0", "draft_worker/0/2",
                                  "kv_pool",           "fan_out",           "scheduler/1",
                                  "target_verifier/1", "draft_worker/0/3",  "draft_worker/0/4",
                                  "draft_worker/0/5",  "draft_worker/0/6",  "draft_worker/0/7"};
  engine_probe probe(runtime);
  for (auto n = random() % 4; n > 0; --n) {
    probe.kill(victims[random() % victims.size()]);
    probe.kill_session(request_id{1 + random() % 8});
  }
}

/// Starts an engine, submits, waits for one or no event, destroys the engine. `longest` is the longest
/// destruction so far.
void live(std::uint64_t seed, caf::actor_system* foreign, std::chrono::steady_clock::duration& longest) {
  std::mt19937_64 random(seed);
  const auto options = small_engine(random);
  testing::worker_watch watch;
  auto made = engine_probe::start(options, testing::with_hash_heads(testing::registry_with_worker(watch)),
                                  gpu::open_device, foreign);
  ASSERT_TRUE(made) << made.error().message();
  auto& engine = *made;
  std::vector<std::shared_ptr<listener>> all(random() % 9);
  for (auto& to : all) to = std::make_shared<listener>();
  const auto submit = [&](std::size_t first, std::uint64_t of) {
    std::mt19937_64 own(of);
    for (auto i = first; i < all.size(); i += 2) {
      const auto request = any_request(own);
      const auto id = engine->submit(request, sink_of(all[i]), any_flow(own));
      if (own() % 8 == 0) engine->cancel(id);
    }
  };
  if (random() % 2 == 0) {
    std::thread other([&, of = random()] { submit(1, of); });
    submit(0, random());
    other.join();
  } else {
    submit(0, random()), submit(1, random());
  }
  const bool crashes = random() % 3 == 0;
  if (crashes) kill_some(*engine, random);
  const auto has_event = [](const auto& to) { return to->num_events > 0; };
  if (!all.empty() && random() % 2 == 0) // at any time; a paused request may delay the others
    while (std::ranges::none_of(all, has_event)) std::this_thread::yield();
  if (crashes && random() % 4 == 0) { // from now on failures are permanent
    engine_probe(*engine).kill("supervisor");
    kill_some(*engine, random);
  }
  const auto begin = std::chrono::steady_clock::now();
  engine.reset();
  const auto took = std::chrono::steady_clock::now() - begin;
  for (auto& to : all) to->engine_gone = true;
  longest = std::max(longest, took);
  // Not a measurement: a wait with a timeout would take five seconds.
  EXPECT_LT(took, std::chrono::seconds(5)) << "seed " << seed;
  for (std::size_t i = 0; i < all.size(); ++i)
    EXPECT_EQ(all[i]->num_ends, 1U) << "seed " << seed << " request " << i;
  if (foreign) foreign->registry().await_running_count_equal(0); // does not return if an actor is left
  for (const auto& to : all) EXPECT_EQ(to->num_late, 0U) << "seed " << seed;
}

void record(std::chrono::steady_clock::duration longest) {
  using std::chrono::microseconds;
  const auto us = std::chrono::duration_cast<microseconds>(longest).count();
  ::testing::Test::RecordProperty("longest_destruction_us", std::to_string(us));
}

TEST(engine_lives, every_request_ends_once_before_its_engine_does) {
  std::chrono::steady_clock::duration longest{};
  for (std::uint64_t seed = 1; seed <= num_lives() && !HasFailure(); ++seed) live(seed, nullptr, longest);
  record(longest);
}

TEST(engine_lives, in_a_foreign_actor_system_nothing_of_an_engine_is_left) {
  system_configuration configuration;
  caf::actor_system system(configuration);
  std::chrono::steady_clock::duration longest{};
  for (std::uint64_t seed = 1; seed <= num_lives() && !HasFailure(); ++seed) live(seed, &system, longest);
  record(longest);
}

} // namespace
} // namespace paceline
