#include "protocol/wire/client_requests.hpp"

#include <gtest/gtest.h>

namespace paceline::wire::chat_request_test {
namespace {

parsed<chat_request> parse(const std::string& members) { return parse_chat_request("{" + members + "}", {}); }

parsed<chat_request> with(const std::string& members) {
  return parse(R"("messages":[{"role":"user","content":"hi"}],)" + members);
}

TEST(chat_request, reads_messages_of_every_role) {
  const auto request = parse(R"("messages":[
    {"role":"developer","content":"be brief"},
    {"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}],"name":"ann"},
    {"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"x\":1}"}}]},
    {"role":"tool","tool_call_id":"c1","content":"42"}])");
  ASSERT_TRUE(request) << request.failure().message;
  const auto& turns = request->prompt.messages;
  ASSERT_EQ(turns.size(), 4U);
  EXPECT_EQ(turns[0].role, "system");
  EXPECT_EQ(turns[1].content, "a\nb");
  EXPECT_EQ(turns[1].name, "ann");
  EXPECT_EQ(turns[2].tool_calls, (std::vector<tool_call>{{"c1", "f", R"({"x":1})"}}));
  EXPECT_FALSE(turns[2].content);
  EXPECT_EQ(turns[3].tool_call_id, "c1");
}

TEST(chat_request, broken_arguments_of_an_earlier_call_are_an_empty_object) {
  const auto request = parse(R"("messages":[{"role":"assistant","tool_calls":[
    {"type":"function","function":{"name":"f","arguments":"{"}},
    {"type":"function","function":{"name":"f","arguments":"[1]"}},
    {"type":"function","function":{"name":"f","arguments":""}}]},
    {"role":"user","content":"go on"}])");
  ASSERT_TRUE(request) << request.failure().message;
  for (const auto& call : request->prompt.messages.at(0).tool_calls) EXPECT_EQ(call.arguments, "{}");
}

TEST(chat_request, arguments_that_nest_too_deep_are_refused_and_not_replaced) {
  const auto nested = [](int levels) {
    std::string lists;
    for (int i = 1; i < levels; ++i) lists += "[";
    lists = R"({\"a\":)" + lists;
    for (int i = 1; i < levels; ++i) lists += "]";
    return parse(
        R"("messages":[{"role":"assistant","tool_calls":[{"type":"function","function":{"name":"f","arguments":")" +
        lists + R"(}"}}]},{"role":"user","content":"go on"}])");
  };
  EXPECT_NE(nested(32)->prompt.messages.at(0).tool_calls.at(0).arguments, "{}");
  for (const int levels : {33, 600})
    EXPECT_EQ(nested(levels).failure().param, "messages[0].tool_calls[0].function.arguments");
}

TEST(chat_request, names_the_message_and_field_that_break_a_rule) {
  const std::pair<const char*, const char*> cases[] = {
      {R"("messages":[])", "messages"},
      {R"("messages":"hi")", "messages"},
      {R"("x":1)", "messages"},
      {R"("messages":[1])", "messages[0]"},
      {R"("messages":[{"content":"x"}])", "messages[0].role"},
      {R"("messages":[{"role":"robot","content":"x"}])", "messages[0].role"},
      {R"("messages":[{"role":"user"}])", "messages[0].content"},
      {R"("messages":[{"role":"user","content":7}])", "messages[0].content"},
      {R"("messages":[{"role":"user","content":[{"type":"image_url","image_url":{}}]}])",
       "messages[0].content[0].type"},
      {R"("messages":[{"role":"user","content":[{"type":"text"}]}])", "messages[0].content[0].text"},
      {R"("messages":[{"role":"user","content":["x"]}])", "messages[0].content[0]"},
      {R"("messages":[{"role":"assistant","tool_calls":[{"type":"function"}]}])",
       "messages[0].tool_calls[0].function"},
      // Fields of another role or kind are judged, too.
      {R"("messages":[{"role":"user","content":"x","tool_calls":[{"id":1}]}])",
       "messages[0].tool_calls[0].id"},
      {R"("messages":[{"role":"user","content":"x","tool_call_id":1}])", "messages[0].tool_call_id"},
      {R"("messages":[{"role":"user","content":"x","audio":{}}])", "messages[0].audio"},
      {R"("messages":[{"role":"user","content":[{"type":"text","text":"x","refusal":1}]}])",
       "messages[0].content[0].refusal"},
      {R"("messages":[{"role":"user","content":"x"}],"tools":[{"type":"function","name":1,"function":{"name":"f"}}])",
       "tools[0].name"}};
  for (const auto& [members, param] : cases) {
    const auto request = parse(members);
    ASSERT_FALSE(request) << members;
    EXPECT_EQ(request.failure().param, param) << request.failure().message;
  }
}

TEST(chat_request, an_assistant_has_said_something_called_or_refused) {
  const auto spoken = [](const std::string& members) {
    return parse_chat_request(
        R"({"messages":[{"role":"user","content":"x"},{"role":"assistant")" + members + "}]}", {});
  };
  for (const auto* silent : {"", R"(,"content":null)", R"(,"refusal":null)", R"(,"tool_calls":[])"}) {
    const auto request = spoken(silent);
    ASSERT_FALSE(request) << silent;
    EXPECT_EQ(request.failure().param, "messages[1].content");
    EXPECT_EQ(request.failure().message, "messages[1].content: is required");
  }
  EXPECT_EQ(spoken(R"(,"refusal":"no")")->prompt.messages[1].content, "no");
  EXPECT_EQ(spoken(R"(,"content":"")")->prompt.messages[1].content, "");
  const auto called = spoken(R"(,"tool_calls":[{"function":{"name":"f"}}])");
  ASSERT_TRUE(called) << called.failure().message;
  EXPECT_FALSE(called->prompt.messages[1].content);
}

TEST(chat_request, max_completion_tokens_wins_over_max_tokens) {
  EXPECT_EQ(with(R"("max_tokens":5,"max_completion_tokens":9)")->fields.max_tokens, 9U);
  EXPECT_EQ(with(R"("max_tokens":5)")->fields.max_tokens, 5U);
  EXPECT_FALSE(with(R"("temperature":1)")->fields.max_tokens);
}

TEST(chat_request, top_logprobs_need_logprobs) {
  EXPECT_EQ(with(R"("top_logprobs":2)").failure().param, "top_logprobs");
  EXPECT_EQ(with(R"("logprobs":true,"top_logprobs":20)")->num_logprobs, 20U);
  EXPECT_EQ(with(R"("logprobs":true,"top_logprobs":21)").failure().param, "top_logprobs");
  EXPECT_EQ(with(R"("logprobs":true)")->num_logprobs, 0U);
}

TEST(chat_request, keeps_tools_in_the_nested_spelling) {
  const auto request =
      with(R"("tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}])");
  ASSERT_TRUE(request);
  EXPECT_EQ(request->prompt.tools,
            R"([{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}])");
  const auto nulls = with(
      R"("tools":[{"type":"function","function":{"name":"f","description":null,"parameters":{"default":null}}}])");
  EXPECT_EQ(nulls->prompt.tools,
            R"([{"type":"function","function":{"name":"f","parameters":{"default":null}}}])")
      << "templates must not see members that count as absent";
  EXPECT_EQ(
      with(R"("tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":"none")")->prompt.tools,
      "");
  EXPECT_EQ(with(R"("tools":[{"type":"function","function":{}}])").failure().param, "tools[0].function.name");
  EXPECT_EQ(with(R"("tools":[{"type":"web_search"}])").failure().param, "tools[0].type");
  EXPECT_EQ(with(R"("tool_choice":"required")").failure().param, "tool_choice") << "there are no tools";
}

TEST(chat_request, a_call_can_be_asked_for) {
  const std::string tools = R"("tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":)";
  EXPECT_FALSE(with(tools + "\"auto\"")->prompt.demand.required);
  EXPECT_TRUE(with(tools + "\"required\"")->prompt.demand.required);
  const auto named = with(tools + R"({"type":"function","function":{"name":"f"}})");
  ASSERT_TRUE(named) << named.failure().message;
  EXPECT_EQ(named->prompt.demand.function, "f");
  EXPECT_EQ(with(tools + R"({"type":"function","name":"f"})")->prompt.demand.function, "f");
  EXPECT_EQ(with(tools + R"({"type":"function","name":"g"})").failure().param, "tool_choice");
  EXPECT_EQ(with(tools + R"({"type":"function"})").failure().param, "tool_choice.name");
  EXPECT_EQ(with(tools + R"({"type":"mcp","name":"f"})").failure().param, "tool_choice.type");
  EXPECT_EQ(with(tools + "7").failure().param, "tool_choice");
}

TEST(chat_request, refuses_known_fields_it_does_not_offer) {
  for (const auto* members : {R"("functions":[{"name":"f"}])", R"("chat_template":"{{x}}")",
                              R"("chat_template_kwargs":{"tokenize":true})", R"("modalities":["audio"])",
                              R"("audio":{})", R"("continue_final_message":true)"}) {
    const auto request = with(members);
    ASSERT_FALSE(request) << members;
    EXPECT_EQ(request.failure().code, "unsupported_parameter") << members;
    EXPECT_FALSE(request.failure().param.empty());
  }
  EXPECT_TRUE(with(R"("response_format":{"type":"text"},"modalities":["text"],"reasoning_effort":null)"));
}

} // namespace
} // namespace paceline::wire::chat_request_test
