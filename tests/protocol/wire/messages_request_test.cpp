#include "protocol/wire/messages_request.hpp"

#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace paceline::wire {
namespace {

constexpr const char* user = R"("messages":[{"role":"user","content":"hi"}])";

parsed<chat_request> parse(const std::string& members) {
  return parse_messages_request("{" + members + "}", {});
}
parsed<chat_request> with(const std::string& members) {
  return parse(R"("max_tokens":5,)" + std::string(user) + (members.empty() ? "" : ",") + members);
}
parsed<chat_request> talk(const std::string& messages) {
  return parse(R"("max_tokens":5,"messages":)" + messages);
}

TEST(messages_request, reads_a_conversation_as_the_turns_of_templates) {
  const auto request = parse(
      R"("max_tokens":5,"system":[{"type":"text","text":"be"},{"type":"text","text":"brief"}],"messages":[
    {"role":"user","content":[{"type":"text","text":"a","cache_control":{"type":"ephemeral"}},{"type":"text","text":"b"}]},
    {"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":""},{"type":"text","text":"c"},
      {"type":"tool_use","id":"t1","name":"f","input":{"x": 1}},{"type":"tool_use","id":"t2","name":"g","input":{}}]},
    {"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"42"},
      {"type":"tool_result","tool_use_id":"t2","content":[{"type":"text","text":"4"},{"type":"text","text":"3"}],"is_error":true},
      {"type":"text","text":"so?"}]}])");
  ASSERT_TRUE(request) << request.failure().message;
  const std::vector<chat_message> turns{
      {"system", "be\nbrief", "", {}, ""},
      {"user", "a\nb", "", {}, ""},
      {"assistant", "c", "", {{"t1", "f", R"({"x":1})"}, {"t2", "g", "{}"}}, "", "hm"},
      {"tool", "42", "", {}, "t1"},
      {"tool", "4\n3", "", {}, "t2"},
      {"user", "so?", "", {}, ""}};
  EXPECT_EQ(request->prompt.messages, turns);
  EXPECT_TRUE(request->fields.ignored_fields.empty());
}

TEST(messages_request, consecutive_messages_of_one_role_are_one_turn) {
  const auto request = talk(R"([{"role":"user","content":"a"},{"role":"user","content":"b"},
    {"role":"assistant","content":"c"},
    {"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":""},{"type":"tool_use","id":"t","name":"f","input":{}}]},
    {"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"1"}]},
    {"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"2"},{"type":"text","text":"d"}]},
    {"role":"user","content":"e"}])");
  ASSERT_TRUE(request) << request.failure().message;
  const std::vector<chat_message> turns{{"user", "a\nb", "", {}, ""},
                                        {"assistant", "c", "", {{"t", "f", "{}"}}, "", "hm"},
                                        {"tool", "1", "", {}, "t"},
                                        {"tool", "2", "", {}, "t"},
                                        {"user", "d\ne", "", {}, ""}};
  EXPECT_EQ(request->prompt.messages, turns);
}

TEST(messages_request, a_message_without_text_adds_no_line_to_the_turn) {
  const auto request = talk(R"([{"role":"user","content":""},{"role":"user","content":"b"},
    {"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":""}]},
    {"role":"assistant","content":"c"},{"role":"user","content":"d"},{"role":"user","content":""}])");
  ASSERT_TRUE(request) << request.failure().message;
  const std::vector<chat_message> turns{
      {"user", "b", "", {}, ""}, {"assistant", "c", "", {}, "", "hm"}, {"user", "d", "", {}, ""}};
  EXPECT_EQ(request->prompt.messages, turns);
}

TEST(messages_request, a_tool_may_be_strict) {
  const auto tools = [](const std::string& member) {
    return with(R"("tools":[{"name":"f","input_schema":{})" + member + "}]")->prompt.tools;
  };
  EXPECT_NE(tools(R"(,"strict":true)").find(R"("strict":true)"), std::string::npos);
  EXPECT_EQ(tools("").find("strict"), std::string::npos);
}

TEST(messages_request, texts_before_a_result_are_a_turn_before_it) {
  const auto request = talk(R"([{"role":"user","content":[{"type":"text","text":"a"},
    {"type":"tool_result","tool_use_id":"t"}]},{"role":"assistant","content":[{"type":"redacted_thinking","data":"x"}]},
    {"role":"user","content":"b"}])");
  ASSERT_TRUE(request) << request.failure().message;
  const std::vector<chat_message> turns{{"user", "a", "", {}, ""},
                                        {"tool", "", "", {}, "t"},
                                        {"assistant", "", "", {}, ""},
                                        {"user", "b", "", {}, ""}};
  EXPECT_EQ(request->prompt.messages, turns);
}

TEST(messages_request, reads_the_options_of_a_generation) {
  const auto request = with(
      R"("temperature":0.5,"top_p":0.9,"top_k":7,"stop_sequences":["x","","y"],"stream":true,
         "metadata":{"user_id":"ann"},"seed":3,"thinking":{"type":"enabled","budget_tokens":2048},
         "service_tier":"auto","speculation":{"drafter":"none"})");
  ASSERT_TRUE(request) << request.failure().message;
  const auto& fields = request->fields;
  EXPECT_EQ(fields.max_tokens, 5U);
  EXPECT_EQ(fields.sampling.temperature, 0.5F);
  EXPECT_EQ(fields.sampling.top_k, 7);
  EXPECT_EQ(fields.stop.stop_strings, (std::vector<std::string>{"x", "y"}));
  EXPECT_TRUE(fields.stream);
  EXPECT_EQ(fields.user, "ann");
  EXPECT_EQ(fields.seed, 3U);
  EXPECT_EQ(fields.speculation.drafter, "none");
  EXPECT_EQ(request->prompt.enable_thinking, true);
  EXPECT_TRUE(fields.ignored_fields.empty());
  EXPECT_EQ(with(R"("thinking":{"type":"disabled"})")->prompt.enable_thinking, false);
  const auto adaptive = with(R"("thinking":{"type":"adaptive","display":"omitted"})");
  EXPECT_FALSE(adaptive->prompt.enable_thinking || adaptive->fields.thoughts.shown);
  EXPECT_EQ(with(R"("output_config":{"effort":"low"})")->fields.effort.level, "low");
  EXPECT_EQ(with(R"("unheard_of":1)")->fields.ignored_fields, (std::vector<std::string>{"unheard_of"}));
}

TEST(messages_request, spells_tools_as_templates_expect_them) {
  const std::string tools =
      R"("tools":[{"name":"f","description":"d","input_schema":{"type":"object"},"cache_control":null},{"type":"custom","name":"g","input_schema":{}}])";
  const auto request = with(tools + R"(,"tool_choice":{"type":"auto","disable_parallel_tool_use":true})");
  ASSERT_TRUE(request) << request.failure().message;
  EXPECT_EQ(
      request->prompt.tools,
      R"([{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object"}}},{"type":"function","function":{"name":"g","parameters":{}}}])");
  EXPECT_FALSE(request->prompt.parallel_tool_calls);
  EXPECT_TRUE(with(tools)->prompt.parallel_tool_calls);
  EXPECT_EQ(with(tools + R"(,"tool_choice":{"type":"none"})")->prompt.tools, "");
  const auto any = with(tools + R"(,"tool_choice":{"type":"any","name":"f"})");
  ASSERT_TRUE(any) << any.failure().message;
  EXPECT_TRUE(any->prompt.demand.required);
  EXPECT_EQ(any->prompt.demand.function, "");
  const auto named = with(tools + R"(,"tool_choice":{"type":"tool","name":"f"})");
  ASSERT_TRUE(named) << named.failure().message;
  EXPECT_TRUE(named->prompt.demand.required);
  EXPECT_EQ(named->prompt.demand.function, "f");
  EXPECT_EQ(with(R"("tools":[])")->prompt.tools, "");
}

TEST(messages_request, names_the_field_that_breaks_a_rule) {
  const std::pair<const char*, const char*> cases[] = {
      {R"("temperature":1.5)", "temperature"},
      {R"("top_p":2)", "top_p"},
      {R"("top_k":1.5)", "top_k"},
      {R"("stop_sequences":"x")", "stop_sequences"},
      {R"("stop_sequences":[1])", "stop_sequences[0]"},
      {R"("stop_sequences":["1","2","3","4","5","6","7","8","9","10","11","12","13","14","15","16","17"])",
       "stop_sequences"},
      {R"("stream":1)", "stream"},
      {R"("system":1)", "system"},
      {R"("system":[{"text":"x"}])", "system[0].type"},
      {R"("metadata":{"user_id":7})", "metadata.user_id"},
      {R"("thinking":{})", "thinking.type"},
      {R"("thinking":{"type":"some"})", "thinking.type"},
      {R"("thinking":{"type":"enabled","budget_tokens":0})", "thinking.budget_tokens"},
      {R"("thinking":{"type":"enabled","display":"x"})", "thinking.display"},
      {R"("tools":[1])", "tools[0]"},
      {R"("tools":[{"input_schema":{}}])", "tools[0].name"},
      {R"("tools":[{"name":"f"}])", "tools[0].input_schema"},
      {R"("tools":[{"name":"f","input_schema":{},"description":1}])", "tools[0].description"},
      {R"("tool_choice":{})", "tool_choice.type"},
      {R"("tool_choice":{"type":"any"})", "tool_choice"},
      {R"("tool_choice":{"type":"tool"})", "tool_choice.name"},
      {R"("tools":[{"name":"f","input_schema":{}}],"tool_choice":{"type":"tool","name":"g"})", "tool_choice"},
      {R"("tool_choice":{"type":"some"})", "tool_choice.type"},
      {R"("tool_choice":{"type":"auto","disable_parallel_tool_use":1})",
       "tool_choice.disable_parallel_tool_use"},
      {R"("max_tokens":0)", "max_tokens"},
      {R"("max_tokens":"5")", "max_tokens"}};
  for (const auto& [members, param] : cases) {
    const auto request = with(members);
    ASSERT_FALSE(request) << members;
    EXPECT_EQ(request.failure().param, param) << request.failure().message;
    EXPECT_EQ(request.failure().code, "invalid_value") << members;
  }
  EXPECT_EQ(parse(user).failure().param, "max_tokens");
  EXPECT_EQ(parse(R"("max_tokens":5)").failure().param, "messages");
}

TEST(messages_request, names_the_message_and_block_that_break_a_rule) {
  const std::pair<const char*, const char*> cases[] = {
      {R"([])", "messages"},
      {R"("hi")", "messages"},
      {R"([1])", "messages[0]"},
      {R"([{"content":"x"}])", "messages[0].role"},
      {R"([{"role":"system","content":"x"}])", "messages[0].role"},
      {R"([{"role":"user"}])", "messages[0].content"},
      {R"([{"role":"user","content":7}])", "messages[0].content"},
      {R"([{"role":"user","content":[]}])", "messages[0].content"},
      {R"([{"role":"user","content":["x"]}])", "messages[0].content[0]"},
      {R"([{"role":"user","content":[{"text":"x"}]}])", "messages[0].content[0].type"},
      {R"([{"role":"user","content":[{"type":"text"}]}])", "messages[0].content[0].text"},
      {R"([{"role":"user","content":[{"type":"tool_result","content":"x"}]}])",
       "messages[0].content[0].tool_use_id"},
      {R"([{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[{"type":"image"}]}]}])",
       "messages[0].content[0].content[0].type"},
      {R"([{"role":"assistant","content":[{"type":"tool_use","id":"t","input":{}}]}])",
       "messages[0].content[0].name"},
      {R"([{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":"{}"}]}])",
       "messages[0].content[0].input"},
      {R"([{"role":"user","content":[{"type":"text","text":"x","name":1}]}])",
       "messages[0].content[0].name"}, // of another kind of block
      {R"([{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f"}]}])",
       "messages[0].content[0].input"}};
  for (const auto& [messages, param] : cases) {
    const auto request = talk(messages);
    ASSERT_FALSE(request) << messages;
    EXPECT_EQ(request.failure().param, param) << request.failure().message;
  }
}

TEST(messages_request, refuses_by_name_what_is_not_offered) {
  const std::pair<const char*, const char*> cases[] = {
      {R"("tools":[{"type":"web_search_20250305","name":"web_search"}])", "tools[0].type"},
      {R"("system":[{"type":"image"}])", "system[0].type"},
      {R"("mcp_servers":[{}])", "mcp_servers"},
      {R"("container":"c")", "container"},
      {R"("stop":"x")", "stop"},
      {R"("n":2)", "n"},
      {R"("use_beam_search":true,"temperature":1)", "use_beam_search"},
      {R"("return_token_ids":true)", "return_token_ids"},
      {R"("mirostat":1)", "mirostat"}};
  for (const auto& [members, param] : cases) {
    const auto request = with(members);
    ASSERT_FALSE(request) << members;
    EXPECT_EQ(request.failure().param, param) << request.failure().message;
    EXPECT_EQ(request.failure().code, "unsupported_parameter") << members;
  }
  for (const auto* type : {"image", "document", "search_result"}) {
    const auto request = talk(R"([{"role":"user","content":[{"type":"text","text":"x"},{"type":")" +
                              std::string(type) + R"("}]}])");
    ASSERT_FALSE(request);
    EXPECT_EQ(request.failure().message,
              "messages[0].content[1].type: blocks of type \"" + std::string(type) + "\" are not offered");
  }
  const auto continued = talk(R"([{"role":"user","content":"x"},{"role":"assistant","content":"y"}])");
  ASSERT_FALSE(continued) << "it would be answered, not continued";
  EXPECT_EQ(continued.failure().param, "messages");
}

TEST(messages_request, contexts_are_not_managed_and_the_client_is_told) {
  for (const auto* wish : {R"("context_management":{})",
                           R"("context_management":{"edits":[{"type":"clear_thinking_20251015"}]})",
                           R"("context_management":{"edits":[{"type":"compact_20260112"}]})"}) {
    const auto request = with(wish);
    ASSERT_TRUE(request) << request.failure().message;
    EXPECT_EQ(request->fields.ignored_fields, (std::vector<std::string>{"context_management"}));
    EXPECT_TRUE(parse_count_request("{" + std::string(user) + "," + wish + "}", {})) << wish;
  }
}

TEST(messages_request, max_tokens_may_be_above_any_context) {
  const auto request = parse(R"("max_tokens":64000,)" + std::string(user));
  ASSERT_TRUE(request) << request.failure().message;
  const model_limits model{"m", 100, 32, {token_id{2}}, {}};
  const auto resolved = resolve(request->fields, model, std::vector<token_id>(4, token_id{5}), std::nullopt);
  ASSERT_TRUE(resolved) << resolved.failure().message;
  EXPECT_EQ(resolved->stop.max_tokens, 28U);
}

TEST(messages_request, reads_what_the_output_must_match_in_each_spelling) {
  using kind = grammar::grammar_source::kind;
  const std::tuple<const char*, kind, const char*, const char*> cases[] = {
      {R"("output_config":{"format":{"type":"json_schema","schema":{"type":"object"}}})", kind::json_schema,
       R"({"type":"object"})", "output_config.format.schema"},
      {R"("response_format":{"type":"json_schema","json_schema":{"schema":{"type":"array"}}})",
       kind::json_schema, R"({"type":"array"})", "response_format.json_schema.schema"},
      {R"("structured_outputs":{"regex":"a+"})", kind::regex, "a+", "structured_outputs.regex"},
      {R"("grammar":"root ::= \"a\"")", kind::ebnf, R"(root ::= "a")", "grammar"}};
  for (const auto& [members, what, text, field] : cases) {
    const auto request = with(members);
    ASSERT_TRUE(request) << request.failure().message;
    ASSERT_TRUE(request->fields.constraint) << members;
    EXPECT_EQ(request->fields.constraint->source.what, what) << members;
    EXPECT_EQ(request->fields.constraint->source.text, text);
    EXPECT_EQ(request->fields.constraint->field, field);
    EXPECT_TRUE(request->fields.ignored_fields.empty()) << members;
  }
  EXPECT_FALSE(with(R"("output_config":{"format":null})")->fields.constraint);
}

TEST(messages_request, names_what_is_wrong_with_a_format) {
  const std::pair<const char*, const char*> cases[] = {
      {R"("output_config":{"format":"json"})", "output_config.format"},
      {R"("output_config":{"format":{}})", "output_config.format.type"},
      {R"("output_config":{"format":{"type":"json_object"}})", "output_config.format.type"},
      {R"("output_config":{"format":{"type":"json_schema"}})", "output_config.format.schema"},
      {R"("output_config":{"format":{"type":"json_schema","schema":1}})", "output_config.format.schema"},
      {R"("grammar":"x","output_config":{"format":{"type":"json_schema","schema":{}}})",
       "output_config.format.schema"}};
  for (const auto& [members, param] : cases) {
    const auto request = with(members);
    ASSERT_FALSE(request) << members;
    EXPECT_EQ(request.failure().param, param) << request.failure().message;
  }
}

TEST(messages_request, a_conversation_is_bounded_in_turns_and_calls) {
  std::string results;
  for (int i = 0; i < 5000; ++i)
    results += std::string(i == 0 ? "" : ",") + R"({"type":"tool_result","tool_use_id":"t"})";
  const auto many = talk(R"([{"role":"user","content":[)" + results + "]}]");
  ASSERT_FALSE(many);
  EXPECT_EQ(many.failure().param, "messages[0].content");
  std::string calls;
  for (int i = 0; i < 129; ++i)
    calls += std::string(i == 0 ? "" : ",") + R"({"type":"tool_use","id":"t","name":"f","input":{}})";
  EXPECT_EQ(talk(R"([{"role":"assistant","content":[)" + calls + R"(]},{"role":"user","content":"x"}])")
                .failure()
                .param,
            "messages[0].content[128]");
}

TEST(messages_request, counting_needs_no_max_tokens) {
  const auto request = parse_count_request("{" + std::string(user) + "}", {});
  ASSERT_TRUE(request) << request.failure().message;
  EXPECT_EQ(request->prompt.messages.size(), 1U);
  EXPECT_FALSE(parse_count_request("{}", {}));
}

} // namespace
} // namespace paceline::wire
