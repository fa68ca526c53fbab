#include "protocol/wire/client_requests.hpp"

#include <gtest/gtest.h>

namespace paceline::wire::completion_request_test {
namespace {

parsed<completion_request> parse(std::string_view body) { return parse_completion_request(body, {}); }

TEST(completion_request, reads_the_four_shapes_of_a_prompt) {
  EXPECT_EQ(std::get<std::string>(parse(R"({"prompt":"a"})")->prompts.at(0)), "a");
  EXPECT_EQ(std::get<std::string>(parse(R"({"prompt":["a","b"]})")->prompts.at(1)), "b");
  EXPECT_EQ(std::get<1>(parse(R"({"prompt":[1,2]})")->prompts.at(0)),
            (std::vector{token_id{1}, token_id{2}}));
  EXPECT_EQ(std::get<1>(parse(R"({"prompt":[[1],[2,3]]})")->prompts.at(1)),
            (std::vector{token_id{2}, token_id{3}}));
}

TEST(completion_request, refuses_other_prompts_by_element) {
  const std::pair<const char*, const char*> cases[] = {{R"({})", "prompt"},
                                                       {R"({"prompt":null})", "prompt"},
                                                       {R"({"prompt":[]})", "prompt"},
                                                       {R"({"prompt":{}})", "prompt"},
                                                       {R"({"prompt":[1,-1]})", "prompt[1]"},
                                                       {R"({"prompt":[1,1.5]})", "prompt[1]"},
                                                       {R"({"prompt":[1,"a"]})", "prompt[1]"},
                                                       {R"({"prompt":["a",1]})", "prompt[1]"},
                                                       {R"({"prompt":[[1],"a"]})", "prompt[1]"},
                                                       {R"({"prompt":[[1],[4294967297]]})", "prompt[1][0]"},
                                                       {R"({"prompt":[true]})", "prompt[0]"}};
  for (const auto& [body, param] : cases) {
    ASSERT_FALSE(parse(body)) << body;
    EXPECT_EQ(parse(body).failure().param, param) << body;
  }
}

TEST(completion_request, zero_tokens_are_allowed_with_echo_only) {
  EXPECT_EQ(parse(R"({"prompt":"a","max_tokens":0})").failure().param, "max_tokens");
  const auto request = parse(R"({"prompt":"a","max_tokens":0,"echo":true,"logprobs":1})");
  ASSERT_TRUE(request);
  EXPECT_TRUE(request->fields.sampling.prompt_logprobs);
  EXPECT_EQ(request->fields.sampling.num_logprobs, 1U);
}

TEST(completion_request, bounds_prompts_times_choices) {
  EXPECT_EQ(parse(R"({"prompt":["a","b","c"],"n":100})").failure().param, "n");
  EXPECT_TRUE(parse(R"({"prompt":["a","b"],"n":100})"));
}

TEST(completion_request, best_of_may_repeat_n_only) {
  EXPECT_TRUE(parse(R"({"prompt":"a","n":2,"best_of":2})"));
  EXPECT_EQ(parse(R"({"prompt":"a","best_of":2})").failure().param, "best_of");
}

TEST(tokenize_request, reads_both_spellings_and_messages) {
  EXPECT_EQ(parse_tokenize_request(R"({"prompt":"a"})", {})->text, "a");
  EXPECT_EQ(parse_tokenize_request(R"({"content":"","add_special":false})", {})->text, "");
  const auto chat = parse_tokenize_request(R"({"messages":[{"role":"user","content":"hi"}]})", {});
  ASSERT_TRUE(chat);
  EXPECT_FALSE(chat->text);
  EXPECT_FALSE(chat->add_special_tokens);
  EXPECT_EQ(parse_tokenize_request("{}", {}).failure().param, "messages");
}

TEST(tokenize_request, reads_what_shapes_the_prompt_of_a_chat) {
  const auto request = parse_tokenize_request(
      R"({"messages":[{"role":"user","content":"x"}],"chat_template_kwargs":{"enable_thinking":false},"reasoning_effort":"low"})",
      {});
  ASSERT_TRUE(request) << request.failure().message;
  EXPECT_EQ(request->prompt.enable_thinking, false);
  EXPECT_EQ(request->effort.level, "low");
}

TEST(tokenize_request, takes_a_text_or_messages_and_judges_the_other_fields_with_both) {
  const auto failure = [](const std::string& rest) {
    return parse_tokenize_request(R"({"prompt":"x",)" + rest + "}", {}).failure();
  };
  EXPECT_EQ(failure(R"("messages":[{"role":"user","content":"x"}])").message,
            "messages: may not be given beside prompt");
  EXPECT_EQ(failure(R"("parallel_tool_calls":1)").param, "parallel_tool_calls");
  EXPECT_EQ(failure(R"("add_generation_prompt":1)").param, "add_generation_prompt");
}

TEST(detokenize_request, needs_token_ids) {
  EXPECT_EQ(parse_detokenize_request(R"({"tokens":[1,2]})", {})->tokens.size(), 2U);
  EXPECT_EQ(parse_detokenize_request(R"({"tokens":[-1]})", {}).failure().param, "tokens[0]");
  EXPECT_EQ(parse_detokenize_request(R"({})", {}).failure().param, "tokens");
}

} // namespace
} // namespace paceline::wire::completion_request_test
