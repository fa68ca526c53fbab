#include "protocol/wire/beam_fields.hpp"

#include "protocol/wire/client_requests.hpp"

#include <gtest/gtest.h>

namespace paceline::wire {
namespace {

parsed<completion_request> parse(const std::string& fields) {
  return parse_completion_request(R"({"prompt":"a","use_beam_search":true,)" + fields + "}", {});
}

parsed<generation_request> resolved(const std::string& fields) {
  model_limits model;
  model.name = "m";
  model.vocab_size = 100;
  model.context_length = 64;
  model.drafters = {"none"};
  model.default_rule = verification_rule::rejection;
  auto request = parse(fields);
  if (!request) return std::move(request).failure();
  return resolve(request->fields, model, {token_id{1}}, 16);
}

TEST(beam_fields, n_is_the_width_unless_it_is_given) {
  EXPECT_EQ(resolved(R"("n":3)")->beams.width, 3U);
  EXPECT_EQ(resolved(R"("n":3)")->beams.num_best, 3U);
  const auto wide = resolved(R"("n":2,"beam_width":5,"length_penalty":0.5,"early_stopping":true)");
  ASSERT_TRUE(wide);
  EXPECT_EQ(wide->beams.width, 5U);
  EXPECT_EQ(wide->beams.num_best, 2U);
  EXPECT_EQ(wide->beams.length_penalty, 0.5F);
  EXPECT_EQ(wide->speculation.rule, verification_rule::coupled)
      << "the model's default rule is of sampled tokens";
}

TEST(beam_fields, without_it_there_is_no_beam_search) {
  EXPECT_EQ(parse_completion_request(R"({"prompt":"a","n":3})", {})->fields.beams.width, 0U);
  EXPECT_EQ(parse_completion_request(R"({"prompt":"a","use_beam_search":false})", {})->fields.beams.width,
            0U);
  for (const auto* name : {"beam_width", "length_penalty"})
    EXPECT_EQ(
        parse_completion_request(R"({"prompt":"a",")" + std::string(name) + R"(":2})", {}).failure().param,
        name);
}

TEST(beam_fields, each_field_that_it_could_not_act_on_is_refused_by_name) {
  const std::pair<const char*, const char*> cases[] = {
      {R"("temperature":0.7)", "temperature"},
      {R"("top_k":5)", "top_k"},
      {R"("top_p":0.9)", "top_p"},
      {R"("min_p":0.1)", "min_p"},
      {R"("logprobs":1)", "logprobs"},
      {R"("first_target":3)", "first_target"},
      {R"("paceline":{"trace":true})", "paceline.trace"},
      {R"("speculation":{"rule":"rejection"})", "speculation.rule"},
      {R"("early_stopping":false)", "early_stopping"},
      {R"("beam_width":17)", "beam_width"},
      {R"("n":3,"beam_width":2)", "beam_width"},
      {R"("n":17)", "n"},
      {R"("length_penalty":11)", "length_penalty"}};
  for (const auto& [fields, param] : cases) {
    const auto request = resolved(fields);
    ASSERT_FALSE(request) << fields;
    EXPECT_EQ(request.failure().param, param) << fields;
    EXPECT_EQ(request.failure().status, 400) << fields;
  }
  for (const auto* harmless :
       {R"("temperature":0)", R"("temperature":1)", R"("seed":3)", R"("top_k":-1)", R"("stream":true)"})
    EXPECT_TRUE(resolved(harmless)) << harmless;
}

TEST(beam_fields, responses_do_not_offer_it) {
  const auto refused = parse_response_request(R"({"input":"a","use_beam_search":true})", {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.failure().param, "use_beam_search");
  EXPECT_EQ(refused.failure().code, "unsupported_parameter");
}

} // namespace
} // namespace paceline::wire
