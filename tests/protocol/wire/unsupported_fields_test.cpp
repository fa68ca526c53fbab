#include "protocol/wire/unsupported_fields.hpp"

#include "protocol/wire/client_requests.hpp"

#include <gtest/gtest.h>

namespace paceline::wire {
namespace {

/// A field with the JSON of values that pass and of values that are refused.
struct field_case {
  const char* name;
  std::vector<const char*> pass;
  std::vector<const char*> refused;
};

const field_case shared_cases[] = {
    {"typical_p", {"1", "1.0", "null"}, {"0.9", "\"1\"", "true", "[]"}},
    {"typ_p", {"1"}, {"0.9"}},
    {"tfs_z", {"1"}, {"0.5"}},
    {"mirostat", {"0", "0.0", "null"}, {"1", "2", "false"}},
    {"mirostat_mode", {"0"}, {"2"}},
    {"dry_multiplier", {"0"}, {"0.8"}},
    {"xtc_probability", {"0"}, {"0.1"}},
    {"top_n_sigma", {"-1", "0"}, {"1"}},
    {"dynatemp_range", {"0"}, {"0.5"}},
    {"min_keep", {"0", "1"}, {"2"}},
    {"samplers", {"null"}, {"[]", "\"kp\""}},
    {"bad_words", {"[]", "null"}, {R"(["x"])"}},
    {"allowed_token_ids", {"null"}, {"[]", "[1]"}},
    {"logits_processors", {"[]"}, {R"(["x"])"}},
    {"n_probs", {"0"}, {"5"}},
    {"post_sampling_probs", {"false"}, {"true"}},
    {"n_indent", {"0"}, {"4"}},
    {"t_max_predict_ms", {"0", "-1"}, {"100"}},
    {"lora", {"[]"}, {R"([{"id":0}])"}},
    {"image_data", {"[]"}, {"[1]"}},
    {"truncate_prompt_tokens", {"null"}, {"-1", "5"}},
    {"prompt_logprobs", {"null"}, {"0", "1"}},
    {"spaces_between_special_tokens", {"true"}, {"false"}},
};

const field_case completion_cases[] = {
    {"suffix", {"\"\"", "null"}, {"\"x\""}},
    {"add_special_tokens", {"true"}, {"false"}},
};

const field_case chat_cases[] = {
    {"functions", {"[]", "null"}, {R"([{"name":"f"}])"}},
    {"function_call", {"\"none\"", "\"auto\""}, {R"({"name":"f"})"}},
    {"verbosity", {"\"medium\""}, {"\"low\""}},
    {"documents", {"[]"}, {"[{}]"}},
    {"continue_final_message", {"false"}, {"true"}},
    {"add_special_tokens", {"false"}, {"true"}},
    {"chat_template", {"null"}, {"\"\"", "\"x\""}},
};

std::string member(const char* name, const char* value) {
  return std::string(",\"").append(name).append("\":").append(value).append("}");
}

/// A value that passes leaves no name among the ignored fields. Any other value is a 400 with the name.
template <class Parse>
void expect(const field_case& item, Parse parse) {
  for (const auto* value : item.pass) {
    const auto request = parse(member(item.name, value));
    ASSERT_TRUE(request) << item.name << " = " << value << ": " << request.failure().message;
    EXPECT_TRUE(request->fields.ignored_fields.empty()) << item.name << " = " << value;
  }
  for (const auto* value : item.refused) {
    const auto request = parse(member(item.name, value));
    ASSERT_FALSE(request) << item.name << " = " << value;
    EXPECT_EQ(request.failure().param, item.name) << value;
    EXPECT_EQ(request.failure().code, "unsupported_parameter") << item.name << " = " << value;
  }
}

parsed<completion_request> completion(const std::string& rest) {
  return parse_completion_request(R"({"prompt":"x")" + rest, {});
}
parsed<chat_request> chat(const std::string& rest) {
  return parse_chat_request(R"({"messages":[{"role":"user","content":"x"}])" + rest, {});
}
parsed<response_request> response(const std::string& rest) {
  return parse_response_request(R"({"input":"x")" + rest, {});
}

TEST(unsupported_fields, values_without_effect_pass_and_others_are_refused_by_name) {
  for (const auto& item : shared_cases) {
    expect(item, completion);
    expect(item, chat);
    expect(item, response);
  }
  for (const auto& item : completion_cases) expect(item, completion);
  for (const auto& item : chat_cases) expect(item, chat);
}

TEST(unsupported_fields, a_refusal_says_what_passes) {
  const auto message = [](const std::string& rest) { return completion(rest).failure().message; };
  EXPECT_EQ(message(member("typical_p", "0.9")),
            "typical_p: this sampling option is not offered; only 1 is accepted");
  EXPECT_EQ(message(member("samplers", "[]")), "samplers: the order of the sampling steps is fixed");
}

TEST(unsupported_fields, parameters_of_options_that_are_off_pass) {
  const auto request = completion(
      R"(,"mirostat":0,"mirostat_tau":5,"mirostat_eta":0.1,"dry_multiplier":0,"dry_base":1.75,"dry_allowed_length":2,)"
      R"("dry_penalty_last_n":-1,"xtc_threshold":0.1,"dynatemp_exponent":1,"n_keep":0,"cache_prompt":true,"id_slot":-1})");
  ASSERT_TRUE(request) << request.failure().message;
  EXPECT_TRUE(request->fields.ignored_fields.empty());
}

TEST(unsupported_fields, a_null_or_medium_verbosity_of_a_response_passes) {
  EXPECT_TRUE(response(R"(,"text":{"verbosity":"medium"}})"));
  EXPECT_EQ(response(R"(,"text":{"verbosity":"low"}})").failure().param, "text.verbosity");
}

} // namespace
} // namespace paceline::wire
