#include "protocol/wire/usage.hpp"

#include "protocol/wire/json_writer.hpp"

#include <gtest/gtest.h>

namespace paceline::wire {
namespace {

using namespace std::chrono_literals;

generation_metrics example() {
  generation_metrics metrics;
  metrics.timings = {1ms, 29ms, 400ms, 3};
  metrics.prompt_tokens = 10;
  metrics.completion_tokens = 5;
  metrics.speculation = speculation_stats{4, 16, 8, {0, 0, 4, 0, 0}, guarantee::tokens, 1};
  return metrics;
}

TEST(usage, metrics_follow_the_rules_that_bench_tools_check) {
  json_writer out;
  write_metrics(out, example());
  EXPECT_EQ(
      out.take(),
      R"({"time_to_first_token_ms":30.0,"queue_time_ms":1.0,"generation_time_ms":400.0,"mean_itl_ms":100.0,"tokens_per_second":10.0,)"
      R"("speculative_decoding":{"mean_acceptance_length":3.0,"draft_acceptance_rate":0.5,"acceptance_histogram":[0,0,4,0,0],)"
      R"("num_spec_steps":4,"num_accepted_draft_tokens":8,"num_draft_tokens":16,"num_spec_tokens":4,"num_full_spec_steps":1,"guarantee":"tokens"}})");
}

TEST(usage, timings_have_llama_servers_names) {
  json_writer out;
  write_timings(out, example());
  EXPECT_EQ(
      out.take(),
      R"({"prompt_n":7,"prompt_ms":29.0,"prompt_per_second":241.3793103448276,"predicted_n":5,"predicted_ms":400.0,)"
      R"("predicted_per_second":10.0,"cache_n":3,"draft_n":16,"draft_n_accepted":8})");
}

TEST(usage, metrics_explain_speculation_even_if_no_draft_was_verified) {
  auto metrics = example();
  metrics.speculation = speculation_stats{};
  metrics.speculation->drafter = "ngram";
  metrics.speculation->num_open_rounds = 4;
  json_writer out;
  write_metrics(out, metrics);
  const auto text = out.take();
  EXPECT_NE(text.find(R"(,"explanation":"ngram could draft in 4 rounds; no draft was verified; )"),
            std::string::npos)
      << text;
  EXPECT_EQ(text.find("speculative_decoding"), std::string::npos);
}

TEST(usage, metrics_of_plain_decoding_say_nothing_of_speculation) {
  auto metrics = example();
  metrics.speculation.reset();
  json_writer out;
  write_metrics(out, metrics);
  const auto text = out.take();
  EXPECT_EQ(text.find("speculative_decoding"), std::string::npos);
  EXPECT_EQ(text.find("explanation"), std::string::npos);
}

TEST(usage, one_token_has_no_rate_and_no_division_by_zero) {
  generation_metrics metrics;
  metrics.completion_tokens = 1;
  json_writer out;
  write_metrics(out, metrics);
  EXPECT_NE(out.take().find(R"("mean_itl_ms":0.0,"tokens_per_second":0.0)"), std::string::npos);
}

TEST(usage, a_prompt_counts_once_over_its_choices) {
  token_event last;
  last.timings = request_timings{0ms, 0ms, 0ms, 4};
  last.speculation = speculation_stats{2, 6, 5, {}};
  usage total;
  add(total, last, 10, 7, true);
  add(total, last, 10, 3, false);
  EXPECT_EQ(total.prompt_tokens, 10U);
  EXPECT_EQ(total.completion_tokens, 10U);
  EXPECT_EQ(total.cached_tokens, 4U);
  EXPECT_EQ(total.accepted_draft_tokens, 10U);
  EXPECT_EQ(total.rejected_draft_tokens, 2U);
}

TEST(usage, draft_tokens_are_told_to_clients_that_sent_a_prediction) {
  usage total;
  total.accepted_draft_tokens = 5;
  total.rejected_draft_tokens = 2;
  const auto text = [&](auto write) {
    json_writer out;
    write(out, total);
    return out.take();
  };
  EXPECT_EQ(text(write_usage).find("prediction"), std::string::npos);
  EXPECT_EQ(text(write_response_usage).find("prediction"), std::string::npos);
  total.has_prediction = true;
  const auto* told = R"("accepted_prediction_tokens":5,"rejected_prediction_tokens":2)";
  EXPECT_NE(text(write_usage).find(told), std::string::npos);
  EXPECT_NE(text(write_response_usage).find(told), std::string::npos);
}

TEST(usage, a_guarantee_below_the_same_tokens_is_named_whatever_the_choices_number) {
  token_event exact;
  exact.speculation = speculation_stats{2, 6, 5, {}};
  token_event lossy = exact;
  lossy.speculation->guarantee = guarantee::lossy;
  usage total;
  add(total, exact, 10, 7, true);
  const auto text = [&](auto write) {
    json_writer out;
    write(out, total);
    return out.take();
  };
  EXPECT_EQ(text(write_usage).find("guarantee"), std::string::npos);
  add(total, lossy, 10, 7, false);
  add(total, exact, 10, 7, false);
  EXPECT_NE(text(write_usage).find(R"("guarantee":"lossy")"), std::string::npos);
  EXPECT_NE(text(write_response_usage).find(R"("guarantee":"lossy")"), std::string::npos);
  total = {};
  exact.speculation->guarantee = guarantee::distribution;
  add(total, exact, 10, 7, true);
  EXPECT_NE(text(write_usage).find(R"("guarantee":"distribution")"), std::string::npos);
  exact.speculation->guarantee =
      guarantee::up_to_rounding; // weaker than a law, stronger than an approximation
  add(total, exact, 10, 7, false);
  EXPECT_NE(text(write_usage).find(R"("guarantee":"up_to_rounding")"), std::string::npos);
  add(total, lossy, 10, 7, false);
  add(total, exact, 10, 7, false);
  EXPECT_NE(text(write_usage).find(R"("guarantee":"lossy")"), std::string::npos);
}

TEST(usage, tokens_that_are_parts_of_characters_are_spelled_in_bytes) {
  EXPECT_EQ(printable_token("a"), "a");
  EXPECT_EQ(printable_token("\xe2\x80"), "bytes:\\xe2\\x80");
}

} // namespace
} // namespace paceline::wire
