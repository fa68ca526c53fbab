#include "runtime/sampling/request_validation.hpp"

#include "tests/support/largest_allocation.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>
#include <vector>

namespace paceline::sampling {
namespace {

constexpr std::uint32_t vocab = 100;
constexpr std::uint32_t context = 64;

generation_request good_request() {
  generation_request request;
  request.prompt = {token_id{1}, token_id{99}};
  request.sampling.logit_bias = {{token_id{3}, -100.0F}, {token_id{7}, 100.0F}};
  request.stop.eos_ids = {token_id{2}};
  request.stop.stop_strings = {"\n"};
  return request;
}

TEST(request_validation, accepts_the_ends_of_every_range) {
  generation_request request = good_request();
  EXPECT_TRUE(validate(request, vocab, context));
  request.sampling.temperature = 0;
  request.sampling.top_k = -1;
  request.sampling.min_p = 1;
  request.sampling.presence_penalty = -2;
  request.sampling.frequency_penalty = 2;
  request.sampling.num_logprobs = 20;
  request.stop.max_tokens = 62;
  request.stop.min_tokens = 62;
  request.speculation.draft_length = 64;
  request.speculation.lenience = request.speculation.epsilon = request.speculation.delta = 1;
  request.first_target = token_id{0};
  EXPECT_TRUE(validate(request, vocab, context));
  request.sampling.temperature = 2;
  request.sampling.prompt_logprobs = true;
  request.stop.max_tokens = 0;
  request.stop.min_tokens = 0;
  EXPECT_TRUE(validate(request, vocab, context));
}

TEST(request_validation, names_field_value_and_rule) {
  using edit = std::function<void(generation_request&)>;
  struct bad_case {
    edit change;
    std::vector<std::string> expected; ///< parts of the message
  };
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<bad_case> cases{
      {[](auto& r) { r.prompt.clear(); }, {"prompt", "at least one token"}},
      {[](auto& r) { r.prompt.edit()[1] = token_id{100}; }, {"prompt", "100", "[0, 100)"}},
      {[](auto& r) { r.prompt.edit()[0] = token_id{-1}; }, {"prompt", "-1"}},
      {[](auto& r) { r.sampling.temperature = -0.1F; }, {"temperature", "-0.1", "[0, 2]"}},
      {[](auto& r) { r.sampling.temperature = 2.5F; }, {"temperature", "2.5", "[0, 2]"}},
      {[=](auto& r) { r.sampling.temperature = nan; }, {"temperature", "nan"}},
      {[](auto& r) { r.sampling.top_k = -2; }, {"top_k", "-2"}},
      {[](auto& r) { r.sampling.top_p = 0; }, {"top_p", "0", "(0, 1]"}},
      {[](auto& r) { r.sampling.top_p = 1.5F; }, {"top_p", "1.5"}},
      {[=](auto& r) { r.sampling.top_p = nan; }, {"top_p", "nan"}},
      {[](auto& r) { r.sampling.min_p = 1.1F; }, {"min_p", "1.1", "[0, 1]"}},
      {[](auto& r) { r.sampling.repetition_penalty = 0; }, {"repetition_penalty", "0"}},
      {[=](auto& r) { r.sampling.repetition_penalty = nan; }, {"repetition_penalty"}},
      {[](auto& r) { r.sampling.presence_penalty = 2.1F; }, {"presence_penalty", "2.1", "[-2, 2]"}},
      {[](auto& r) { r.sampling.frequency_penalty = -3; }, {"frequency_penalty", "-3", "[-2, 2]"}},
      {[](auto& r) { r.sampling.logit_bias.edit()[0].second = 101; },
       {"logit_bias[3]", "101", "[-100, 100]"}},
      {[](auto& r) { r.sampling.logit_bias.edit()[1].first = token_id{100}; }, {"logit_bias", "100"}},
      {[](auto& r) { r.sampling.logit_bias.edit()[1].first = token_id{3}; }, {"logit_bias", "3", "once"}},
      {[](auto& r) { r.sampling.num_logprobs = 101; }, {"logprobs", "101"}},
      {[](auto& r) { r.stop.max_tokens = 0; }, {"max_tokens", "0", "at least 1"}},
      {[](auto& r) { r.stop.min_tokens = 17; }, {"min_tokens", "17", "max_tokens = 16"}},
      {[](auto& r) { r.stop.eos_ids = {token_id{500}}; }, {"eos_token_id", "500"}},
      {[](auto& r) { r.stop.stop_ids = {token_id{-7}}; }, {"stop_token_ids", "-7"}},
      {[](auto& r) { r.stop.stop_strings = {""}; }, {"stop", "empty"}},
      {[](auto& r) { r.speculation.draft_length = 65; }, {"draft_length", "65", "64"}},
      {[](auto& r) { r.speculation.lenience = 0; }, {"speculation.lenience", "0", "(0, 1]"}},
      {[](auto& r) { r.speculation.epsilon = 1.5F; }, {"speculation.epsilon", "1.5", "(0, 1]"}},
      {[=](auto& r) { r.speculation.delta = nan; }, {"speculation.delta", "nan", "(0, 1]"}},
      {[](auto& r) { r.first_target = token_id{100}; }, {"first_target", "100"}},
      {[](auto& r) {
         r.prediction = {token_id{5}, token_id{100}};
       },
       {"prediction", "100"}},
      {[](auto& r) { r.timeout = std::chrono::milliseconds(0); }, {"timeout", "0"}},
  };
  for (const bad_case& one : cases) {
    generation_request request = good_request();
    one.change(request);
    const auto result = validate(request, vocab, context);
    ASSERT_FALSE(result) << one.expected.front();
    EXPECT_EQ(result.error().code(), errc::invalid_argument);
    for (const std::string& part : one.expected)
      EXPECT_NE(result.error().message().find(part), std::string::npos) << result.error().message();
  }
}

TEST(request_validation, writes_no_names_for_what_is_in_order) {
  auto request = good_request();
  auto& biases = request.sampling.logit_bias.edit();
  biases.clear();
  for (std::int32_t id = 0; id < 20'000; ++id) biases.emplace_back(token_id{id}, 1.0F);
  test::reset_largest_allocation();
  ASSERT_TRUE(validate(request, 20'000, context));
  EXPECT_LT(test::num_allocations(), 10U);
}

TEST(request_validation, a_beam_search_draws_nothing) {
  auto search = good_request();
  search.beams = {.width = 16, .num_best = 16, .length_penalty = -10};
  EXPECT_TRUE(validate(search, vocab, context));
  using edit = std::function<void(generation_request&)>;
  const std::vector<std::pair<edit, std::string>> cases{
      {[](auto& r) { r.beams.width = 17; }, "beam_width"},
      {[](auto& r) { r.beams.num_best = 0; }, "n = 0"},
      {[](auto& r) { r.beams.width = 15; }, "n = 16"},
      {[](auto& r) { r.beams.length_penalty = std::numeric_limits<float>::quiet_NaN(); }, "length_penalty"},
      {[](auto& r) { r.sampling.temperature = 0.5F; }, "temperature"},
      {[](auto& r) { r.sampling.top_k = 3; }, "top_k"},
      {[](auto& r) { r.sampling.top_p = 0.5F; }, "top_p"},
      {[](auto& r) { r.sampling.min_p = 0.5F; }, "min_p"},
      {[](auto& r) { r.sampling.num_logprobs = 0; }, "logprobs"},
      {[](auto& r) { r.sampling.prompt_logprobs = true; }, "logprobs"},
      {[](auto& r) { r.first_target = token_id{3}; }, "first_target"},
      {[](auto& r) { r.trace = true; }, "trace"},
      {[](auto& r) { r.speculation.rule = verification_rule::block; }, "speculation.rule"}};
  for (const auto& [change, part] : cases) {
    auto request = search;
    change(request);
    const auto result = validate(request, vocab, context);
    ASSERT_FALSE(result) << part;
    EXPECT_NE(result.error().message().find(part), std::string::npos) << result.error().message();
    request.beams = {};
    if (part != "trace") continue;
    EXPECT_TRUE(validate(request, vocab, context)) << "what a beam search cannot do others can";
  }
}

TEST(request_validation, a_request_that_does_not_fit_states_both_numbers) {
  generation_request request = good_request();
  request.stop.max_tokens = 63;
  const auto result = validate(request, vocab, context);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code(), errc::context_length_exceeded);
  EXPECT_NE(result.error().message().find("max_tokens = 63"), std::string::npos);
  EXPECT_NE(result.error().message().find("64"), std::string::npos);
  request.stop.max_tokens = std::numeric_limits<std::uint32_t>::max();
  EXPECT_FALSE(validate(request, vocab, context));
}

} // namespace
} // namespace paceline::sampling
