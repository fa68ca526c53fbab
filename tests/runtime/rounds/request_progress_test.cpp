// The three parts of a request: what its log shows while verify programs write it.
#include "runtime/rounds/request_progress.hpp"

#include "runtime/rounds/admit.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <utility>

namespace paceline::rounds {

using namespace scheduling;
namespace {

constexpr time_point start{std::chrono::hours(1)};

generation_request request_of(std::uint32_t prompt_length, std::uint32_t max_tokens) {
  generation_request request;
  request.prompt.assign(prompt_length, token_id{1});
  request.stop.max_tokens = max_tokens;
  request.stop.eos_ids = {token_id{9}};
  return request;
}

admitted_request admitted(generation_request request, std::uint32_t context_length = 64) {
  return admit(request_id{1}, std::move(request), context_length, nullptr, start);
}

TEST(request_progress_test, the_log_has_the_prompt_and_then_what_was_committed) {
  const auto one = admitted(request_of(3, 8));
  one.progress->begin_round(start);
  EXPECT_TRUE(one.progress->commit(token_id{5}, std::nullopt));
  EXPECT_EQ(one.log->length(), 4U);
  EXPECT_EQ(one.log->output_length(), 1U);
  EXPECT_EQ(one.log->remaining(), 7U);
  EXPECT_EQ(one.log->tokens().back(), token_id{5});
  EXPECT_EQ(one.progress->end_round({}, start).tokens, std::vector{token_id{5}});
}

/// A text in which token 7 completes the stop string "END".
class text_with_an_end final : public text_output {
 public:
  piece feed(token_id token, bool may_stop) override {
    if (may_stop && token == token_id{7}) return {"", "END"};
    return {"x", std::nullopt};
  }
  std::string finish() override { return {}; }
  std::unique_ptr<text_output> clone() const override { return std::make_unique<text_with_an_end>(*this); }
};

TEST(request_progress_test, the_last_event_names_the_stop_string_that_ended_the_text) {
  for (const auto& [last, stop_string] : {std::pair{token_id{7}, "END"}, {token_id{9}, ""}}) {
    const auto one = admit(request_id{1}, request_of(3, 8), 64, std::make_unique<text_with_an_end>(), start);
    one.progress->begin_round(start);
    EXPECT_TRUE(one.progress->commit(token_id{5}, std::nullopt));
    EXPECT_FALSE(one.progress->commit(last, std::nullopt));
    const auto event = one.progress->end_round({}, start);
    EXPECT_EQ(event.finish, finish_reason::stop);
    EXPECT_EQ(event.stop_string, stop_string);
    EXPECT_EQ(event.text, "x");
  }
}

TEST(request_progress_test, every_event_has_statistics_where_they_are_asked_for) {
  for (const bool asks : {false, true}) {
    auto request = request_of(3, 2);
    request.stats_in_events = asks;
    const auto one = admitted(std::move(request));
    one.progress->restart_at(2, 2, 1);
    for (const bool is_last : {false, true}) {
      one.progress->begin_round(start);
      one.progress->count_verification(3, 1);
      EXPECT_EQ(one.progress->commit(token_id{5}, std::nullopt), !is_last);
      const auto event = one.progress->end_round({}, start);
      EXPECT_EQ(event.finish, is_last ? finish_reason::length : finish_reason::none);
      ASSERT_EQ(event.timings.has_value(), asks || is_last);
      ASSERT_EQ(event.speculation.has_value(), asks || is_last);
      if (!event.timings) continue;
      EXPECT_EQ(event.timings->num_cached_tokens, 2U);
      EXPECT_EQ(event.speculation->num_rounds, is_last ? 2U : 1U);
    }
  }
}

TEST(request_progress_test, a_log_is_computed_when_all_but_its_last_token_are) {
  const auto one = admitted(request_of(3, 8));
  EXPECT_FALSE(one.log->is_computed());
  one.progress->restart_at(1, 1, 1);
  EXPECT_FALSE(one.log->is_computed());
  one.progress->begin_round(start);
  one.progress->commit(token_id{5}, std::nullopt);
  EXPECT_FALSE(one.log->is_computed());
  one.progress->set_kv_length(3);
  EXPECT_TRUE(one.log->is_computed());
  one.progress->restart_at(0, 0, 2); // it comes back after a preemption
  EXPECT_FALSE(one.log->is_computed());
}

TEST(request_progress_test, counts_are_those_of_all_committed_tokens_whenever_they_are_asked_for) {
  const auto early = admitted(request_of(3, 8)), late = admitted(request_of(3, 8));
  early.log->counts();
  for (const auto* one : {&early, &late}) {
    one->progress->begin_round(start);
    one->progress->commit(token_id{1}, std::nullopt);
  }
  for (const auto* one : {&early, &late}) {
    const auto entries = one->log->counts().entries();
    ASSERT_EQ(entries.size(), 1U);
    EXPECT_EQ(entries.front().token, token_id{1});
    EXPECT_EQ(entries.front().output, 1U);
    EXPECT_TRUE(entries.front().prompt);
  }
}

TEST(request_progress_test, an_eos_ends_the_log) {
  const auto one = admitted(request_of(3, 8));
  one.progress->begin_round(start);
  EXPECT_FALSE(one.progress->commit(token_id{9}, std::nullopt));
  EXPECT_EQ(one.log->finish(), finish_reason::stop);
}

TEST(request_terms_test, output_is_bounded_by_the_request_and_by_the_context) {
  EXPECT_EQ(admitted(request_of(3, 8)).terms->max_output(), 8U);
  EXPECT_EQ(admitted(request_of(60, 8)).terms->max_output(), 4U);
}

TEST(request_terms_test, a_beam_search_draws_nothing) {
  auto request = request_of(3, 8);
  request.beams.width = 2;
  request.sampling.temperature = 1;
  request.speculation.rule = verification_rule::rejection;
  const auto one = admitted(std::move(request));
  EXPECT_EQ(one.terms->request().sampling.temperature, 0.0F);
  EXPECT_EQ(one.terms->guarantee(), guarantee::tokens);
  EXPECT_EQ(one.log->beams(), one.progress->beams());
}

TEST(request_terms_test, the_guarantee_is_the_weaker_of_rule_and_device) {
  const auto of = [](verification_rule rule, guarantee most) {
    auto request = request_of(3, 8);
    request.speculation.rule = rule;
    return admit(request_id{1}, std::move(request), 64, nullptr, start, most).terms->guarantee();
  };
  EXPECT_EQ(of(verification_rule::coupled, guarantee::tokens), guarantee::tokens);
  EXPECT_EQ(of(verification_rule::coupled, guarantee::up_to_rounding), guarantee::up_to_rounding);
  EXPECT_EQ(of(verification_rule::lenient, guarantee::up_to_rounding), guarantee::lossy);
}

} // namespace
} // namespace paceline::rounds
