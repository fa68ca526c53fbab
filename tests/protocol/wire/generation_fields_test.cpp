#include "protocol/wire/client_requests.hpp"

#include <gtest/gtest.h>

#include <map>
#include <set>

namespace paceline::wire {
namespace {

parsed<completion_request> parse(const std::string& members) {
  std::string body = R"({"prompt":"x")";
  if (!members.empty()) body.append(",").append(members);
  return parse_completion_request(body.append("}"), {});
}

std::string member(const std::string& name, const std::string& value) {
  return std::string("\"").append(name).append("\":").append(value);
}

/// Values a client may send by mistake or on purpose, as JSON text.
const std::vector<std::string> edge_values = {"-1",
                                              "0",
                                              "1",
                                              "2",
                                              "1.9",
                                              "1.0",
                                              "2147483647",
                                              "2147483648",
                                              "4294967297",
                                              "9223372036854775808",
                                              "18446744073709551616",
                                              "-2147483649",
                                              "1e400",
                                              "-1e400",
                                              "true",
                                              "null",
                                              "\"1\"",
                                              "[]",
                                              "{}",
                                              "0.5",
                                              "-0.5",
                                              "100",
                                              "101",
                                              "-100.5",
                                              "65"};

/// Which of `edge_values` each numeric field takes. Everything else must be a 400 naming the field.
const std::map<std::string, std::set<std::string>> accepted_values = {
    {"max_tokens", {"-1", "1", "2", "2147483647", "100", "101", "65"}},
    {"n_predict", {"-1", "1", "2", "2147483647", "100", "101", "65"}},
    {"n", {"1", "2", "100", "101", "65"}},
    {"temperature", {"0", "1", "2", "1.9", "1.0", "0.5"}},
    {"top_p", {"0", "1", "1.0", "0.5"}},
    {"min_p", {"0", "1", "1.0", "0.5"}},
    {"top_k", {"-1", "0", "1", "2", "2147483647", "100", "101", "65"}},
    {"repetition_penalty", {"1", "2", "1.9", "1.0", "0.5", "100", "65"}},
    {"repeat_penalty", {"1", "2", "1.9", "1.0", "0.5", "100", "65"}},
    {"presence_penalty", {"-1", "0", "1", "2", "1.9", "1.0", "0.5", "-0.5"}},
    {"frequency_penalty", {"-1", "0", "1", "2", "1.9", "1.0", "0.5", "-0.5"}},
    {"seed",
     {"-2147483649", "-1", "0", "1", "2", "2147483647", "2147483648", "4294967297", "9223372036854775808",
      "100", "101", "65"}},
    {"logprobs", {"0", "1", "2"}},
    {"min_tokens", {"0", "1", "2", "2147483647", "100", "101", "65"}},
    {"first_target", {"0", "1", "2", "2147483647", "100", "101", "65"}},
    {"priority", {"-1", "0", "1", "2", "2147483647", "100", "101", "65"}},
    {"deadline_ms", {"1", "2", "2147483647", "100", "101", "65"}},
    {"ignore_eos", {"true"}},
    {"echo", {"true"}},
    {"stream", {"true"}},
    {"include_stop_str_in_output", {"true"}},
    {"skip_special_tokens", {"true"}},
    {"return_token_ids", {"true"}},
    {"request_id", {"\"1\""}},
    {"cache_salt", {"\"1\""}},
    {"model", {"\"1\""}},
    {"stop", {"\"1\"", "[]"}},
    {"stop_token_ids", {"[]"}},
    {"logit_bias", {"{}", "[]"}},
    {"speculation", {"{}"}},
};

TEST(generation_fields, every_field_takes_its_range_and_refuses_every_other_edge_value_by_name) {
  for (const auto& [field, accepted] : accepted_values)
    for (const auto& value : edge_values) {
      const auto request = parse(member(field, value));
      if (value == "null" || accepted.count(value) != 0) {
        EXPECT_TRUE(request) << field << " = " << value << ": " << (request ? "" : request.failure().message);
      } else {
        ASSERT_FALSE(request) << field << " = " << value;
        EXPECT_EQ(request.failure().status, 400) << field << " = " << value;
        EXPECT_EQ(request.failure().param, field) << field << " = " << value;
      }
    }
}

TEST(generation_fields, nan_text_is_not_json) {
  EXPECT_EQ(parse(R"("temperature":NaN)").failure().code, "invalid_json");
}

TEST(generation_fields, a_number_that_becomes_zero_as_a_float_is_out_of_an_open_range) {
  EXPECT_EQ(parse(R"("speculation":{"rule":"lenient","lenience":1e-300})").failure().param,
            "speculation.lenience");
  EXPECT_TRUE(parse(R"("temperature":1e-300)"));
}

TEST(generation_fields, speculation_chooses_drafter_length_and_rule) {
  const auto request =
      parse(R"("speculation":{"drafter":"ngram","draft_length":5,"rule":"rejection","x":1})");
  ASSERT_TRUE(request);
  EXPECT_EQ(request->fields.speculation.drafter, "ngram");
  EXPECT_EQ(request->fields.speculation.draft_length, 5U);
  EXPECT_EQ(request->fields.rule, verification_rule::rejection);
  EXPECT_EQ(request->fields.ignored_fields, std::vector<std::string>{"speculation.x"});
  EXPECT_EQ(parse(R"("speculation":{"draft_length":0})").failure().param, "speculation.draft_length");
  EXPECT_EQ(parse(R"("speculation":{"draft_length":64})").failure().param, "speculation.draft_length");
  EXPECT_EQ(parse(R"("speculation":{"rule":"lucky"})").failure().param, "speculation.rule");
  for (const auto mode :
       {overlap_request::off, overlap_request::groups, overlap_request::ahead, overlap_request::outcomes}) {
    const std::string name(overlap_request_names[static_cast<std::size_t>(mode)]);
    EXPECT_EQ(parse(R"("speculation":{"overlap":")" + name + R"("})")->fields.speculation.overlap, mode)
        << name;
  }
  EXPECT_EQ(parse(R"("speculation":{"overlap":"auto"})").failure().param, "speculation.overlap")
      << "is said by saying nothing";
}

TEST(generation_fields, lossy_rules_and_their_parameters_are_asked_for_together) {
  const auto lenient = parse(R"("speculation":{"rule":"lenient","lenience":0.25})");
  ASSERT_TRUE(lenient);
  EXPECT_EQ(lenient->fields.rule, verification_rule::lenient);
  EXPECT_EQ(lenient->fields.speculation.lenience, 0.25F);
  const auto typical = parse(R"("speculation":{"rule":"typical","epsilon":1,"delta":0.5})");
  ASSERT_TRUE(typical);
  EXPECT_EQ(typical->fields.rule, verification_rule::typical);
  EXPECT_EQ(typical->fields.speculation.epsilon, 1.0F);
  EXPECT_EQ(typical->fields.speculation.delta, 0.5F);
  for (const auto rule : {"block", "skip_sample_adjustment"}) {
    const auto request = parse(R"("speculation":{"rule":")" + std::string(rule) + R"("})");
    ASSERT_TRUE(request) << rule;
    EXPECT_EQ(name_of(*request->fields.rule), rule);
  }
  const auto refused = [](const std::string& members) {
    const auto request = parse(R"("speculation":{)" + members + "}");
    return request ? "" : request.failure().param;
  };
  EXPECT_EQ(refused(R"("rule":"lenient","lenience":0)"), "speculation.lenience");
  EXPECT_EQ(refused(R"("rule":"lenient","lenience":1.01)"), "speculation.lenience");
  EXPECT_EQ(refused(R"("rule":"typical","epsilon":-0.1)"), "speculation.epsilon");
  EXPECT_EQ(refused(R"("rule":"typical","delta":"1")"), "speculation.delta");
  EXPECT_EQ(refused(R"("lenience":0.5)"), "speculation.lenience") << "without its rule it would do nothing";
  EXPECT_EQ(refused(R"("rule":"typical","lenience":0.5)"), "speculation.lenience");
  EXPECT_EQ(refused(R"("rule":"lenient","delta":0.5)"), "speculation.delta");
}

TEST(generation_fields, up_to_16_stop_strings_and_empty_ones_stop_nothing) {
  EXPECT_EQ(parse(R"("stop":["a","b"])")->fields.stop.stop_strings, (std::vector<std::string>{"a", "b"}));
  std::string words = R"("a")";
  for (int i = 1; i < 16; ++i) words += R"(,"a")";
  EXPECT_EQ(parse(R"("stop":[)" + words + "]")->fields.stop.stop_strings.size(), 16U);
  EXPECT_EQ(parse(R"("stop":[)" + words + R"(,"b"])").failure().param, "stop");
  EXPECT_EQ(parse(R"("stop":["","b"])")->fields.stop.stop_strings, std::vector<std::string>{"b"});
  for (const auto* none : {R"("stop":"")", R"("stop":null)", R"("stop":[])", R"("stop":[""])"})
    EXPECT_TRUE(parse(none)->fields.stop.stop_strings.empty()) << none;
  EXPECT_EQ(parse(R"("stop":["a",1])").failure().param, "stop[1]");
}

TEST(generation_fields, known_but_unsupported_fields_are_refused_and_unknown_ones_listed) {
  for (const auto* field : {"typical_p", "bad_words", "truncate_prompt_tokens", "suffix", "n_indent"}) {
    const auto request = parse(member(field, R"({"a":1})"));
    ASSERT_FALSE(request) << field;
    EXPECT_EQ(request.failure().code, "unsupported_parameter");
    EXPECT_EQ(request.failure().param, field);
  }
  EXPECT_EQ(parse(R"("temprature":1,"user":"u")")->fields.ignored_fields,
            std::vector<std::string>{"temprature"});
}

TEST(generation_fields, a_prediction_is_text_parts_of_text_or_token_ids) {
  const auto with = [](const std::string& content) {
    return parse(R"("prediction":{"type":"content","content":)" + content + "}");
  };
  EXPECT_EQ(with(R"("abc")")->fields.prediction_text, "abc");
  EXPECT_EQ(with(R"("")")->fields.prediction_text, "");
  EXPECT_EQ(with(R"([{"type":"text","text":"ab"},{"type":"text","text":"c"}])")->fields.prediction_text,
            "abc");
  EXPECT_EQ(with("[7,8]")->fields.prediction_tokens, (std::vector<token_id>{token_id{7}, token_id{8}}));
  EXPECT_TRUE(with("[]")->fields.prediction_tokens.empty());
  EXPECT_TRUE(parse(R"("prediction":null)"));
  const std::map<std::string, std::string> refused = {
      {"7", "prediction.content"},
      {"{}", "prediction.content"},
      {"null", "prediction.content"},
      {R"(["a"])", "prediction.content[0]"},
      {"[-1]", "prediction.content[0]"},
      {"[1,1.5]", "prediction.content[1]"},
      {"[{}]", "prediction.content[0].type"},
      {R"([{"type":"image"}])", "prediction.content[0].type"},
      {R"([{"type":"text"}])", "prediction.content[0].text"},
      {R"([1,{"type":"text","text":"x"}])", "prediction.content"}};
  for (const auto& [content, param] : refused) {
    const auto request = with(content);
    ASSERT_FALSE(request) << content;
    EXPECT_EQ(request.failure().param, param) << content;
  }
  EXPECT_EQ(parse(R"("prediction":{"content":"x"})").failure().param, "prediction.type");
  EXPECT_EQ(parse(R"("prediction":{"type":"tool","content":"x"})").failure().param, "prediction.type");
  EXPECT_EQ(parse(R"("prediction":"x")").failure().param, "prediction");
  EXPECT_EQ(parse(R"("prediction":{"type":"content","content":"x","more":1})")->fields.ignored_fields,
            std::vector<std::string>{"prediction.more"});
}

TEST(generation_fields, stream_options_need_a_stream) {
  EXPECT_EQ(parse(R"("stream_options":{"include_usage":true})").failure().param, "stream_options");
  EXPECT_TRUE(parse(R"("stream":true,"stream_options":{"include_usage":true})")->fields.include_usage);
}

const model_limits model{"m", 100, 32, {token_id{2}}, {"none", "ngram"}};

std::vector<token_id> tokens(std::size_t count) { return std::vector<token_id>(count, token_id{5}); }

TEST(resolve, a_predictions_tokens_must_be_in_the_vocabulary) {
  auto fields = parse(R"("prediction":{"type":"content","content":[99]})")->fields;
  EXPECT_EQ(resolve(fields, model, tokens(4), 16)->prediction, std::vector<token_id>{token_id{99}});
  EXPECT_FALSE(keep_usable_prediction(fields, model));
  fields.prediction_tokens.push_back(token_id{100});
  EXPECT_EQ(keep_usable_prediction(fields, model)->param, "prediction.content");
}

TEST(resolve, of_a_prediction_only_what_the_context_holds_is_kept) {
  auto fields = parse("")->fields;
  fields.prediction_tokens = std::vector<token_id>(100'000, token_id{7});
  fields.prediction_tokens.edit().back() = token_id{100}; // checked nevertheless
  EXPECT_EQ(keep_usable_prediction(fields, model)->param, "prediction.content");
  fields.prediction_tokens.edit().back() = token_id{7};
  EXPECT_FALSE(keep_usable_prediction(fields, model));
  EXPECT_EQ(fields.prediction_tokens.size(), model.context_length);
}

TEST(resolve, choices_share_their_prompt_and_prediction) {
  auto fields = parse(R"("prediction":{"type":"content","content":[99]},"logit_bias":{"4":1})")->fields;
  const auto first = resolve(fields, model, tokens(4), 16);
  const auto second = *first;
  EXPECT_TRUE(second.prompt.shares_with(first->prompt));
  EXPECT_TRUE(second.prediction.shares_with(fields.prediction_tokens));
  EXPECT_TRUE(second.sampling.logit_bias.shares_with(fields.sampling.logit_bias));
}

TEST(kept_scores, are_bounded_for_many_choices_only) {
  auto fields = parse("")->fields;
  fields.num_choices = 128;
  auto request = *resolve(fields, model, tokens(4), 16);
  request.sampling.num_logprobs = 20;
  request.stop.max_tokens = 2000;
  EXPECT_FALSE(judge_kept_scores(fields, request, 128));
  request.stop.max_tokens = 2400;
  const auto refused = judge_kept_scores(fields, request, 128);
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->param, "n");
  EXPECT_NE(refused->message.find("6000000"), std::string::npos) << refused->message;
  fields.stream = true; // nothing is kept
  EXPECT_FALSE(judge_kept_scores(fields, request, 128));
  fields.stream = false;
  fields.num_choices = 8;
  request.stop.max_tokens = 1'000'000;
  EXPECT_FALSE(judge_kept_scores(fields, request, 8));
}

TEST(resolve, fills_what_the_model_decides) {
  auto request = resolve(parse(R"("seed":3)")->fields, model, tokens(4), 16);
  ASSERT_TRUE(request);
  EXPECT_EQ(request->model, "m");
  EXPECT_EQ(request->stop.max_tokens, 16U);
  EXPECT_EQ(request->stop.eos_ids, model.eos_ids);
  EXPECT_EQ(resolve({}, model, tokens(4), std::nullopt)->stop.max_tokens, 28U);
  EXPECT_EQ(resolve({}, model, tokens(20), 16)->stop.max_tokens, 12U);
}

TEST(resolve, a_limit_above_the_context_is_refused_or_reduced) {
  auto fields = parse(R"("max_tokens":33)")->fields;
  const auto refused = resolve(fields, model, tokens(4), 16);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.failure().code, "context_length_exceeded");
  fields.clamps_max_tokens = true;
  EXPECT_EQ(resolve(fields, model, tokens(4), 16)->stop.max_tokens, 28U);
  EXPECT_FALSE(resolve(fields, model, tokens(33), 16)) << "a prompt is not reduced";
}

TEST(resolve, no_limit_of_tokens_is_the_rest_of_the_context) {
  const auto most = [](const std::string& members) {
    return resolve(parse(members)->fields, model, tokens(4), 16)->stop.max_tokens;
  };
  EXPECT_EQ(most(""), 16U);
  EXPECT_EQ(most(R"("max_tokens":-1)"), 28U);
  EXPECT_EQ(most(R"("n_predict":-1)"), 28U);
  EXPECT_EQ(most(R"("n_predict":-1,"max_tokens":5)"), 5U);
  EXPECT_EQ(most(R"("n_predict":5,"max_tokens":-1)"), 28U);
}

TEST(resolve, a_top_p_of_0_keeps_the_most_likely_token) {
  const auto request = resolve(parse(R"("top_p":0,"top_k":40)")->fields, model, tokens(4), 16);
  EXPECT_EQ(request->sampling.top_k, 1);
  EXPECT_EQ(request->sampling.top_p, 1.0F);
  EXPECT_EQ(
      resolve(parse(R"("top_p":0,"use_beam_search":true)")->fields, model, tokens(4), 16).failure().param,
      "top_p");
}

TEST(resolve, the_models_rule_holds_where_the_request_names_none) {
  auto strict = model;
  strict.default_rule = verification_rule::rejection;
  const auto rule_of = [&](const std::string& members) {
    return resolve(parse(members)->fields, strict, tokens(4), 16)->speculation.rule;
  };
  EXPECT_EQ(rule_of(""), verification_rule::rejection);
  EXPECT_EQ(rule_of(R"("speculation":{"drafter":"ngram"})"), verification_rule::rejection);
  EXPECT_EQ(rule_of(R"("speculation":{"rule":"coupled"})"), verification_rule::coupled);
  EXPECT_EQ(resolve({}, model, tokens(4), 16)->speculation.rule, verification_rule::coupled);
}

TEST(resolve, never_cuts_a_prompt_and_says_both_numbers) {
  const auto too_long = resolve({}, model, tokens(33), 16);
  EXPECT_EQ(too_long.failure().code, "context_length_exceeded");
  EXPECT_NE(too_long.failure().message.find("33"), std::string::npos);
  EXPECT_NE(too_long.failure().message.find("32"), std::string::npos);
  EXPECT_EQ(resolve({}, model, tokens(32), 16).failure().code, "context_length_exceeded");
  const auto asks_too_much = resolve(parse(R"("max_tokens":33)")->fields, model, tokens(4), 16);
  EXPECT_EQ(asks_too_much.failure().param, "max_tokens");
  EXPECT_EQ(asks_too_much.failure().message,
            "max_tokens is 33; this model's maximum context length is 32 tokens");
}

TEST(resolve, a_max_tokens_of_the_whole_context_is_cut_to_what_the_prompt_leaves) {
  const auto most = [](const std::string& members) {
    return resolve(parse(members)->fields, model, tokens(4), 16)->stop.max_tokens;
  };
  EXPECT_EQ(most(R"("max_tokens":28)"), 28U);
  EXPECT_EQ(most(R"("max_tokens":29)"), 28U);
  EXPECT_EQ(most(R"("max_tokens":32)"), 28U);
  EXPECT_EQ(
      resolve(parse(R"("max_tokens":32,"min_tokens":29)")->fields, model, tokens(4), 16).failure().param,
      "min_tokens");
}

TEST(resolve, checks_token_ids_against_the_vocabulary) {
  EXPECT_EQ(resolve({}, model, {token_id{100}}, 16).failure().param, "prompt");
  EXPECT_EQ(resolve({}, model, {}, 16).failure().param, "prompt");
  EXPECT_EQ(resolve(parse(R"("logit_bias":{"100":1})")->fields, model, tokens(1), 16).failure().param,
            "logit_bias");
  EXPECT_EQ(resolve(parse(R"("stop_token_ids":[100])")->fields, model, tokens(1), 16).failure().param,
            "stop_token_ids");
  EXPECT_EQ(resolve(parse(R"("first_target":100)")->fields, model, tokens(1), 16).failure().param,
            "first_target");
}

TEST(resolve, names_the_drafters_a_model_offers) {
  const auto refused = resolve(parse(R"("speculation":{"drafter":"medusa"})")->fields, model, tokens(1), 16);
  EXPECT_EQ(refused.failure().param, "speculation.drafter");
  EXPECT_NE(refused.failure().message.find("default, none, ngram"), std::string::npos);
}

TEST(resolve, min_tokens_cannot_exceed_the_output) {
  EXPECT_EQ(resolve(parse(R"("min_tokens":17)")->fields, model, tokens(1), 16).failure().param, "min_tokens");
}

} // namespace
} // namespace paceline::wire
