#include "protocol/wire/sampling_fields.hpp"

#include "protocol/wire/client_requests.hpp"

#include <gtest/gtest.h>

namespace paceline::wire::sampling_fields_test {
namespace {

parsed<completion_request> parse(const std::string& members) {
  return parse_completion_request(std::string(R"({"prompt":"x",)").append(members).append("}"), {});
}

std::string member(const std::string& name, const std::string& value) {
  return std::string("\"").append(name).append("\":").append(value);
}

TEST(sampling_fields, a_seed_keeps_all_64_bits) {
  EXPECT_EQ(parse(R"("seed":18446744073709551615)")->fields.seed, 18446744073709551615U);
  EXPECT_EQ(parse(R"("seed":9007199254740993)")->fields.seed, 9007199254740993U);
}

TEST(sampling_fields, a_seed_of_minus_one_is_any_seed) {
  EXPECT_FALSE(parse(R"("seed":-1)")->fields.seed);
  EXPECT_FALSE(parse(R"("seed":null)")->fields.seed);
}

TEST(sampling_fields, a_seed_may_be_negative) {
  EXPECT_EQ(parse(R"("seed":-2)")->fields.seed, 18446744073709551614U);
  EXPECT_EQ(parse(R"("seed":-9223372036854775808)")->fields.seed, 9223372036854775808U);
  for (const auto* seed : {"-9223372036854775809", "18446744073709551616", "-2.0", "\"-2\"", "true"})
    EXPECT_EQ(parse(member("seed", seed)).failure().param, "seed") << seed;
}

TEST(sampling_fields, llama_servers_names_are_understood) {
  const auto request = parse(R"("repeat_penalty":1.5,"n_predict":7)");
  ASSERT_TRUE(request) << request.failure().message;
  EXPECT_EQ(request->fields.sampling.repetition_penalty, 1.5F);
  EXPECT_EQ(request->fields.max_tokens, 7U);
  EXPECT_TRUE(request->fields.ignored_fields.empty());
  EXPECT_EQ(parse(R"("n_predict":7,"max_tokens":9)")->fields.max_tokens, 9U);
  EXPECT_EQ(parse(R"("max_tokens":9,"n_predict":7)")->fields.max_tokens, 9U) << "in any order";
  EXPECT_TRUE(parse(R"("repeat_penalty":1.5,"repetition_penalty":1.5)"));
  EXPECT_EQ(parse(R"("repeat_penalty":1.5,"repetition_penalty":1.2)").failure().param, "repeat_penalty");
}

TEST(sampling_fields, a_window_of_penalties_matters_only_with_one) {
  for (const auto* passes : {R"("repeat_last_n":64)", R"("repeat_last_n":64,"repeat_penalty":1)",
                             R"("repeat_last_n":-1,"repeat_penalty":1.1)"})
    EXPECT_TRUE(parse(passes)) << passes;
  for (const auto* refused : {R"("repeat_last_n":64,"repeat_penalty":1.1)",
                              R"("repeat_last_n":0,"frequency_penalty":0.5)", R"("repeat_last_n":-2)"})
    EXPECT_EQ(parse(refused).failure().param, "repeat_last_n") << refused;
}

TEST(sampling_fields, logit_bias_is_sorted_by_token_and_checked_by_entry) {
  const auto request = parse(R"("logit_bias":{"30":-100,"4":5.5})");
  ASSERT_TRUE(request);
  const auto& bias = request->fields.sampling.logit_bias;
  ASSERT_EQ(bias.size(), 2U);
  EXPECT_EQ(bias[0], (std::pair{token_id{4}, 5.5F}));
  EXPECT_EQ(bias[1], (std::pair{token_id{30}, -100.0F}));
  EXPECT_EQ(parse(R"("logit_bias":{"4":101})").failure().param, "logit_bias.4");
  for (const auto* key : {"-1", "x", "1.5", " 1", "4294967296", ""})
    EXPECT_EQ(
        parse(member("logit_bias", std::string("{").append(member(key, "1")).append("}"))).failure().param,
        "logit_bias")
        << key;
  EXPECT_EQ(parse(R"("logit_bias":{"4":1,"04":1})").failure().param, "logit_bias");
}

} // namespace
} // namespace paceline::wire::sampling_fields_test
