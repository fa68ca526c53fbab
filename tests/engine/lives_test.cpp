// Lives of engines: requests of every kind come, the engine is destroyed at any moment, and every request has
// had exactly one final event by then. PACELINE_ENGINE_LIVES sets how many are lived.
#include "tests/engine/generation.hpp"

#include <caf/all.hpp>
#include <gtest/gtest.h>

#include <algorithm>
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

/// What one request's sink saw. Outlives its engine.
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

/// Few requests run together, so that others wait.
config::engine_options small_engine(std::mt19937_64& random) {
  auto options = hash_engine();
  auto& model = options.models[0];
  model.max_running = 1 + static_cast<std::uint32_t>(random() % 4);
  model.max_waiting = 4;
  model.hash.pass_work = random() % 3 == 0 ? 20'000 : 0;
  config::drafter_options drafter;
  drafter.name = drafter.kind = "ngram";
  model.drafters.push_back(drafter);
  options.actor_threads = 1 + static_cast<std::uint32_t>(random() % 2);
  return options;
}

generation_request any_request(std::mt19937_64& random) {
  const auto salt = static_cast<std::uint32_t>(random() % 1000);
  switch (random() % 6) {
  case 0: // refused: the rule is broken
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
    return make_request(5, 2, salt); // soon over
  case 3:
    return make_request(460, 30, salt); // long in its prompt
  case 4: {
    auto r = make_request(10, 400, salt);
    r.speculation.drafter = "ngram";
    return r;
  }
  default:
    return make_request(20, 450, salt);
  }
}

/// Starts an engine, submits, waits for any or no event, destroys it. `longest` destruction so far.
void live(std::uint64_t seed, caf::actor_system* foreign, std::chrono::steady_clock::duration& longest) {
  std::mt19937_64 random(seed);
  const auto options = small_engine(random);
  auto made = foreign ? engine::start(*foreign, options) : engine::start(options);
  ASSERT_TRUE(made) << made.error().message();
  auto& engine = *made;
  std::vector<std::shared_ptr<listener>> all(random() % 9);
  for (auto& to : all) to = std::make_shared<listener>();
  const auto submit = [&](std::size_t first, std::uint64_t of) {
    std::mt19937_64 own(of);
    for (auto i = first; i < all.size(); i += 2) {
      const auto id = engine->submit(any_request(own), sink_of(all[i]),
                                     {.initial_credit = own() % 4 == 0 ? 3U : 1U << 30});
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
  const auto has_event = [](const auto& to) { return to->num_events > 0; };
  if (!all.empty() && random() % 2 == 0) // somewhere in its life; a paused request may hold up the others
    while (std::ranges::none_of(all, has_event)) std::this_thread::yield();
  const auto begin = std::chrono::steady_clock::now();
  engine.reset();
  const auto took = std::chrono::steady_clock::now() - begin;
  for (auto& to : all) to->engine_gone = true;
  longest = std::max(longest, took);
  // Not a measurement: five seconds are what a wait that gives up would take.
  EXPECT_LT(took, std::chrono::seconds(5)) << "seed " << seed;
  for (std::size_t i = 0; i < all.size(); ++i)
    EXPECT_EQ(all[i]->num_ends, 1U) << "seed " << seed << " request " << i;
  if (foreign) foreign->registry().await_running_count_equal(0); // waits for ever if an actor is left
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
