// What a round makes of its rows: failures of the model, and drafts behind the end of a request.
#include "tests/runtime/rounds/rounds.hpp"

#include "tests/support/test_drafters.hpp"

#include <gtest/gtest.h>

namespace paceline::rounds {

using namespace scheduling;
namespace {

using namespace test_support;

constexpr std::uint32_t prompt_length = 6;

model::hash_model_config small_target() {
  model::hash_model_config target;
  target.vocab_size = 64;
  target.context_length = 128;
  return target;
}

generation_request greedy_request() {
  generation_request r;
  for (std::uint32_t i = 0; i < prompt_length; ++i) r.prompt.emplace_back(static_cast<std::int32_t>(i * 7));
  r.stop.max_tokens = 24;
  r.stop.ignore_eos = true;
  r.sampling.temperature = 0;
  return r;
}

/// The token that the target says after `context`.
token_id best_after(const model::hash_model& target, std::span<const token_id> context) {
  const auto logits = target.logits_after(context);
  return token_id{static_cast<std::int32_t>(std::ranges::max_element(logits) - logits.begin())};
}

/// Runs one request with a drafter that is always right.
std::unique_ptr<lone_rounds> always_right() {
  auto oracle = std::make_shared<model::hash_model>(small_target());
  std::vector<std::unique_ptr<speculation::drafter>> drafters;
  drafters.push_back(test::make_scripted_drafter(
      "right", test::own_sample([oracle](std::span<const token_id> c) { return oracle->logits_after(c); })));
  return std::make_unique<lone_rounds>(
      small_target(), [](std::size_t rows) { return std::chrono::microseconds(100 + rows); },
      std::move(drafters));
}

class a_row_without_a_finite_logit : public testing::TestWithParam<std::uint32_t> {};

TEST_P(a_row_without_a_finite_logit, fails_the_request_by_name) {
  auto device = always_right();
  device->submit(greedy_request(), drafter_index{1}, GetParam());
  device->spoil_rows_at(token_position{prompt_length + 8});
  device->run();
  const auto& last = device->events.back();
  EXPECT_EQ(last.finish, finish_reason::error);
  ASSERT_TRUE(last.failure);
  EXPECT_NE(last.failure->message().find("finite"), std::string::npos) << last.failure->message();
  for (const auto& event : device->events)
    for (std::size_t i = 0; i < event.tokens.size(); ++i)
      EXPECT_LE(event.first_index + i, 8U) << "a token that no row decided was told";
}

INSTANTIATE_TEST_SUITE_P(with_drafts, a_row_without_a_finite_logit, testing::Values(0U, 3U, 5U));

TEST(round_outcomes, drafts_behind_a_stop_are_not_accepted) {
  auto request = greedy_request();
  const model::hash_model target(small_target());
  auto text = request.prompt;
  for (int i = 0; i < 8; ++i) text.push_back(best_after(target, text));
  request.stop.stop_ids = {text.back()}; // the eighth token ends it, within a draft of five
  const auto first = std::ranges::find(text.begin() + prompt_length, text.end(), text.back());
  const auto num_output = static_cast<std::uint32_t>(first - text.begin()) + 1 - prompt_length;
  request.trace = true;

  auto device = always_right();
  device->submit(request, drafter_index{1}, 5);
  device->run();
  const auto& last = device->events.back();
  ASSERT_EQ(last.finish, finish_reason::stop);
  ASSERT_TRUE(last.speculation && last.trace);
  EXPECT_EQ(device->request(0).output_length(), num_output);
  std::uint32_t num_told = 0, num_accepted = 0;
  for (const auto& event : device->events) {
    num_told += static_cast<std::uint32_t>(event.tokens.size());
    if (event.trace) num_accepted += static_cast<std::uint32_t>(event.trace->accepted.size());
  }
  EXPECT_EQ(num_told, num_output);
  EXPECT_EQ(last.speculation->num_accepted_tokens, num_accepted);
  EXPECT_EQ(last.tokens.size(), last.trace->accepted.size()) << "the last round committed drafts only";
  EXPECT_FALSE(last.trace->bonus);
}

} // namespace
} // namespace paceline::rounds
