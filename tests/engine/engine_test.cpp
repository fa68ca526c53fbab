#include "tests/engine/generation.hpp"

#include "config/engine_options.hpp"
#include "engine/served_model.hpp"
#include "engine/snapshot.hpp"
#include "runtime/model/hash_model.hpp"
#include "runtime/sampling/pipeline.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>

namespace paceline {
namespace {

using testing::generation;
using testing::hash_engine;
using testing::make_request;

/// The expected result: computed from the hash model's logits after the request's tokens alone, with the
/// request's own sampling.
std::vector<token_id> oracle(const generation_request& request, std::uint32_t context_length = 512) {
  model::hash_model_config config;
  config.context_length = context_length;
  const model::hash_model model(config);
  const sampling::pipeline pipeline(request.sampling, request.stop);
  sampling::token_counts counts;
  counts.add_prompt(request.prompt);
  auto tokens = request.prompt;
  std::vector<token_id> output;
  while (output.size() < request.stop.max_tokens && tokens.size() < context_length) {
    auto logits = model.logits_after(tokens);
    sampling::row_context row;
    row.committed = &counts;
    row.position = token_position{static_cast<std::uint32_t>(tokens.size())};
    row.output_index = static_cast<std::uint32_t>(output.size());
    const auto token = pipeline.process_and_sample(logits, row);
    tokens.push_back(token), output.push_back(token), counts.add_output(token);
  }
  return output;
}

TEST(engine, streams_the_tokens_of_plain_decoding) {
  auto engine = engine::start(hash_engine());
  ASSERT_TRUE(engine) << engine.error().message();
  const auto request = make_request(20, 40);
  generation g;
  (*engine)->submit(request, g.sink());
  g.wait();
  EXPECT_EQ(g.tokens(), oracle(request));
  EXPECT_EQ(g.last().finish, finish_reason::length);
  EXPECT_FALSE(g.has_gap());
}

TEST(engine, a_model_that_lists_no_drafters_drafts_where_it_pays) {
  auto options = hash_engine();
  ASSERT_TRUE(options.models[0].drafters.empty());
  options.models[0].hash.memory = 1;          // the text soon repeats periodically
  options.models[0].hash.pass_work = 200'000; // a pass takes time, drafting does not
  auto engine = engine::start(options);
  ASSERT_TRUE(engine) << engine.error().message();
  EXPECT_EQ((*engine)->models().front()->drafters(),
            (std::vector<std::string>{"none", "ngram", "suffix", "prediction", "forced", "auto"}));
  EXPECT_EQ((*engine)->models().front()->draft_lengths(), (std::vector<std::uint32_t>{0, 5, 5, 16, 16, 16}));
  auto request = make_request(20, 400);
  request.speculation.drafter = ""; // the model's default
  generation g;
  (*engine)->submit(request, g.sink());
  g.wait();
  EXPECT_EQ(g.tokens().size(), 400U);
  std::uint64_t accepted = 0;
  const auto snapshot = snapshot_at_rest(**engine);
  for (const auto& drafter : snapshot.models.at(0).drafters) accepted += drafter.num_accepted_tokens;
  EXPECT_GT(accepted, 100U);
}

TEST(engine, times_the_passes_of_a_model_that_may_be_drafted_for) {
  auto options = hash_engine();
  auto engine = engine::start(options);
  ASSERT_TRUE(engine) << engine.error().message();
  const auto& times = (*engine)->models().front()->pass_times();
  ASSERT_GE(times.size(), 8U);
  EXPECT_EQ(times.front().rows, 1U);
  for (std::size_t i = 1; i < times.size(); ++i) EXPECT_GT(times[i].rows, times[i - 1].rows);
  for (const auto& one : times) EXPECT_GT(one.nanoseconds, 0) << one.rows;
  options.pass_timing = {};
  engine = engine::start(options);
  ASSERT_TRUE(engine) << engine.error().message();
  EXPECT_TRUE((*engine)->models().front()->pass_times().empty());
}

/// "auto" chooses among a client's draft and the others: a useless one does not exclude the others.
TEST(engine, auto_weighs_a_prediction_against_other_drafters) {
  auto options = hash_engine();
  options.models[0].hash.memory = 1;
  options.models[0].hash.pass_work = 200'000;
  auto engine = engine::start(options);
  ASSERT_TRUE(engine) << engine.error().message();
  auto request = make_request(20, 400);
  request.speculation.drafter = "default";
  generation plain;
  (*engine)->submit(request, plain.sink());
  plain.wait();
  const auto num_accepted = [&] {
    std::uint64_t accepted = 0;
    const auto snapshot = snapshot_at_rest(**engine);
    for (const auto& drafter : snapshot.models.at(0).drafters) accepted += drafter.num_accepted_tokens;
    return accepted;
  };
  const auto before = num_accepted();
  request.cache_salt = "another";
  request.prediction = std::vector<token_id>(400, token_id{1});
  generation misled;
  (*engine)->submit(request, misled.sink());
  misled.wait();
  EXPECT_EQ(misled.tokens(), plain.tokens());
  EXPECT_GT(num_accepted() - before, 100U) << "by drafters that read the text";
}

TEST(engine, concurrent_requests_do_not_touch_each_other) {
  auto engine = engine::start(hash_engine());
  ASSERT_TRUE(engine);
  std::vector<generation> all(24);
  std::vector<generation_request> requests;
  for (std::uint32_t i = 0; i < all.size(); ++i) {
    requests.push_back(make_request(5 + i * 3, 30, i, i % 2 == 0 ? 0.0F : 1.0F));
    (*engine)->submit(requests.back(), all[i].sink());
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i].wait();
    EXPECT_EQ(all[i].tokens(), oracle(requests[i])) << "request " << i;
  }
  EXPECT_EQ(snapshot_at_rest(**engine).models.at(0).finished_length, all.size());
}

TEST(engine, a_model_that_does_not_answer_shows_its_last_figures) {
  std::promise<void> entered, released;
  std::atomic<bool> was_here{false};
  auto options = hash_engine();
  options.actor_threads = 1; // a client that blocks it blocks every actor
  auto engine = engine::start(options);
  ASSERT_TRUE(engine);
  generation whole;
  (*engine)->submit(make_request(4, 4), whole.sink());
  whole.wait();
  EXPECT_EQ(snapshot_at_rest(**engine).models.at(0).finished_length, 1U);
  generation second;
  (*engine)->submit(make_request(4, 4), [&, sink = second.sink()](const token_event& event) {
    if (!was_here.exchange(true)) {
      entered.set_value();
      released.get_future().wait();
    }
    sink(event);
  });
  entered.get_future().wait();
  const auto figures = (*engine)->snapshot().models.at(0);
  EXPECT_TRUE(figures.is_late);
  EXPECT_EQ(figures.finished_length, 1U);
  released.set_value();
  second.wait();
  EXPECT_FALSE(snapshot_at_rest(**engine).models.at(0).is_late);
}

TEST(engine, a_refused_request_gets_one_event_with_the_reason) {
  auto engine = engine::start(hash_engine());
  ASSERT_TRUE(engine);
  auto request = make_request(4, 4);
  request.sampling.top_p = 7;
  generation g;
  (*engine)->submit(request, g.sink());
  g.wait();
  EXPECT_EQ(g.last().finish, finish_reason::error);
  EXPECT_EQ(g.last().failure->code(), errc::invalid_argument);
  EXPECT_NE(g.last().failure->message().find("top_p"), std::string::npos);
}

TEST(engine, a_cancelled_request_ends_and_its_blocks_come_back) {
  auto engine = engine::start(hash_engine());
  ASSERT_TRUE(engine);
  generation g;
  const auto id = (*engine)->submit(make_request(10, 450), g.sink());
  g.wait_for_tokens(3);
  (*engine)->cancel(id);
  g.wait();
  EXPECT_EQ(g.last().finish, finish_reason::cancelled);
  generation after; // its rounds run after those of the cancelled one
  (*engine)->submit(make_request(10, 5), after.sink());
  after.wait();
  EXPECT_TRUE((*engine)->drain(std::chrono::seconds(5)));
}

TEST(engine, a_paused_client_pauses_its_own_request_only) {
  auto engine = engine::start(hash_engine());
  ASSERT_TRUE(engine);
  const auto request = make_request(10, 60);
  generation slow, quick;
  const auto id = (*engine)->submit(request, slow.sink(), {.initial_credit = 10});
  (*engine)->submit(make_request(10, 60, 1), quick.sink());
  quick.wait();
  EXPECT_LE(slow.tokens().size(), 10U);
  (*engine)->grant(id, 25);
  slow.wait_for_tokens(35);
  EXPECT_EQ(slow.tokens().size(), 35U);
  (*engine)->grant(id, 100);
  slow.wait();
  EXPECT_EQ(slow.tokens(), oracle(request));
}

TEST(engine, a_sink_that_does_not_return_holds_its_own_request_back) {
  auto options = hash_engine();
  options.actor_threads = 4; // one of them stays in the sink
  options.models[0].context_length = 2048;
  auto engine = engine::start(options);
  ASSERT_TRUE(engine);
  const auto request = make_request(10, 1500);
  generation g;
  std::promise<void> released;
  (*engine)->submit(request, [inner = g.sink(), wait = released.get_future().share()](const token_event& e) {
    wait.wait();
    inner(e);
  });
  const auto num_committed = [&] { return (*engine)->snapshot().models.at(0).generation_tokens; };
  while (num_committed() < flow_control::own_window) std::this_thread::yield();
  for (int i = 0; i < 100; ++i) ASSERT_EQ(num_committed(), flow_control::own_window);
  released.set_value();
  g.wait();
  EXPECT_EQ(g.tokens(), oracle(request, 2048));
}

TEST(engine, a_prompt_longer_than_the_window_is_scored_to_its_end) {
  auto options = hash_engine();
  options.models[0].context_length = 2048;
  auto engine = engine::start(options);
  ASSERT_TRUE(engine);
  auto request = make_request(3 * flow_control::own_window, 5);
  request.sampling.prompt_logprobs = true;
  generation g;
  std::size_t num_scores = 0;
  (*engine)->submit(request, [inner = g.sink(), &num_scores](const token_event& e) {
    num_scores += e.prompt_logprobs.size();
    inner(e);
  });
  g.wait();
  EXPECT_EQ(num_scores, request.prompt.size() - 1);
  EXPECT_EQ(g.tokens(), oracle(request, 2048));
}

TEST(engine, destruction_ends_what_runs) {
  generation g;
  {
    auto engine = engine::start(hash_engine());
    ASSERT_TRUE(engine);
    (*engine)->submit(make_request(10, 450), g.sink());
    g.wait_for_tokens(2);
  }
  g.wait();
  EXPECT_EQ(g.last().finish, finish_reason::cancelled);
}

} // namespace
} // namespace paceline
