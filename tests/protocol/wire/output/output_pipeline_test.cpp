#include "protocol/wire/output/output_pipeline.hpp"

#include "protocol/wire/output/call_schema.hpp"

#include "output_reading.hpp"

#include <gtest/gtest.h>

#include <random>

namespace paceline::wire::output_pipeline_test {
namespace {

using kind = output_item::kind;

output_plan plan_of(call_syntax calls, bool reasons = false) {
  static const std::string tools =
      R"([{"type":"function","function":{"name":"weather","parameters":{"type":"object",
    "properties":{"city":{"type":"string"},"days":{"type":"integer"},"note":{"type":["string","null"]}}}}},
    {"type":"function","function":{"name":"now"}}])";
  output_plan plan;
  plan.calls = calls;
  plan.tools = std::make_shared<const tool_signatures>(tools);
  plan.in_harmony = calls == call_syntax::harmony;
  if (reasons) plan.reasoning = plan.in_harmony ? harmony_markers : think_markers;
  return plan;
}

using test::bytes_of;
using test::read;
using test::told;

std::string told(const output_plan& plan, const std::string& text) { return told(read(plan, {text})); }

struct spelled_output {
  call_syntax calls;
  const char* text;
  const char* expected;
};

const spelled_output outputs[] = {
    {call_syntax::hermes, "Hello {\"name\": 1}", "Hello {\"name\": 1}"},
    {call_syntax::hermes,
     "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Ulm\"}}\n</tool_call>",
     "call_0 weather({\"city\": \"Ulm\"})"},
    {call_syntax::hermes,
     "I look.\n<tool_call>\n{\"arguments\": {\"a\": [1, {\"b\": \"}\\\"{\"}]}, \"name\": \"weather\"}\n</tool_call>\n"
     "<tool_call>{\"name\":\"now\",\"arguments\":{}}</tool_call>\n",
     "I look. | call_0 weather({\"a\": [1, {\"b\": \"}\\\"{\"}]}) | call_1 now({})"},
    {call_syntax::hermes, "<tool_call>{\"name\": \"now\"}</tool_call>", "call_0 now({})"},
    {call_syntax::hermes, "<tool_call>{\"name\": \"now\", \"arguments\": \"{\\\"a\\\": 1}\"}</tool_call>",
     "call_0 now({\"a\": 1})"},
    {call_syntax::hermes, "<tool_call>{\"name\": \"now\", \"arguments\": {\"a\": \"x\ny\"}}</tool_call>",
     "call_0 now({\"a\": \"x\\ny\"})"},
    {call_syntax::hermes, "<tool_call>{\"name\": \"now\\ud800\"}</tool_call>",
     "<tool_call>{\"name\": \"now\\ud800\"}</tool_call>"}, // half a character is no name
    // Without its last brace; and a tag without a call, whose blanks stay, behind a call.
    {call_syntax::hermes, "<tool_call>{\"name\": \"now\", \"arguments\": {}</tool_call>", "call_0 now({})"},
    {call_syntax::hermes, "<tool_call>{\"name\": \"now\"}</tool_call>\nDone.  <tool_call> is the tag.",
     "call_0 now({}) | Done.  <tool_call> is the tag."},
    {call_syntax::hermes, "<tool_call>no call</tool_call> after", "<tool_call>no call</tool_call> after"},
    {call_syntax::hermes, "<tool_call>{\"name\": 7}</tool_call>", "<tool_call>{\"name\": 7}</tool_call>"},
    {call_syntax::hermes, "<tool_call>{\"name\": \"weather\", \"arguments\": {\"city\": \"Ul",
     "call_0 weather({\"city\": \"Ul)"}, // cut by the token limit
    {call_syntax::hermes, "<tool_call>{\"name\": \"weather\", \"argu", "call_0 weather({})"},
    // Arguments as a text: cut, within an escape, of no JSON, half a character; or something else.
    {call_syntax::hermes, R"(<tool_call>{"name": "weather", "arguments": "{\"city\": \"Ul)",
     R"(call_0 weather({"city": "Ul))"},
    {call_syntax::hermes, R"(<tool_call>{"name": "weather", "arguments": "{\"city\": \"U\u00f)",
     R"(call_0 weather({"city": "U))"},
    {call_syntax::hermes, R"(<tool_call>{"name": "weather", "arguments": "{city: Ulm"}</tool_call>)",
     "call_0 weather({city: Ulm)"},
    {call_syntax::hermes,
     R"(<tool_call>{"name": "weather", "arguments": "{\"city\": \"\ud800\"}"}</tool_call>)",
     R"(call_0 weather("{\"city\": \"\ud800\"}"))"},
    {call_syntax::hermes, R"(<tool_call>{"name": "weather", "arguments": ["Ulm"]}</tool_call>)",
     R"(call_0 weather(["Ulm"]))"},
    {call_syntax::hermes, R"(<tool_call>{"arguments": "x", "name": "weather"}</tool_call>)",
     "call_0 weather(x)"},
    {call_syntax::hermes, R"(<tool_call>{"name": "now", "arguments": null}</tool_call>)", "call_0 now({})"},
    {call_syntax::hermes, R"(<tool_call>{"name": "now", "arguments": nul)", "call_0 now(nul)"},
    {call_syntax::llama3, R"({"name": "now", "parameters": "{\"a\")", R"(call_0 now({"a"))"},
    {call_syntax::mistral, R"([TOOL_CALLS][{"name": "now", "arguments": "{\"a\")", R"(call_0 now({"a"))"},
    {call_syntax::mistral, "[TOOL_CALLS]now[ARGS]and{}", "[TOOL_CALLS]now[ARGS]and{}"},
    {call_syntax::mistral, "[TOOL_CALLS]now[ARGS] {}", "call_0 now({})"},
    {call_syntax::mistral, "[TOOL_CALLS] [ \n, 1]", "[TOOL_CALLS] [ \n, 1]"},
    {call_syntax::mistral, "[TOOL_CALLS][ {\"name\": 1}]", "[TOOL_CALLS][ {\"name\": 1}]"},
    {call_syntax::mistral, "[TOOL_CALLS][{\"na", "[TOOL_CALLS][{\"na"}, // cut by the token limit
    {call_syntax::mistral, "a [TOOL_CALLS] [ , \n", "a [TOOL_CALLS] [ , \n"},
    {call_syntax::qwen3_coder,
     "<tool_call><function=weather><parameter=city>\nUlm\n</parameter>\n<parameter=note>\nIt \"r",
     "call_0 weather({\"city\": \"Ulm\", \"note\": \"It \\\"r\"})"},
    {call_syntax::qwen3_coder, "<tool_call><function=weather><parameter=ci",
     "call_0 weather({}) | <parameter=ci"},
    {call_syntax::qwen3_coder,
     "<tool_call><function=weather>Wait.<parameter=city>Ulm</parameter></function></tool_call>",
     "call_0 weather({\"city\": \"Ulm\"}) | Wait."},
    {call_syntax::mistral, "[TOOL_CALLS]now and[ARGS]{}", "[TOOL_CALLS]now and[ARGS]{}"},
    {call_syntax::hermes, "{\"name\": \"now\", \"arguments\": {}}\n<tool_call>{\"name\":\"now\"}</tool_call>",
     "call_0 now({}) | call_1 now({})"}, // small models leave out the tags
    {call_syntax::hermes,
     "```json\n{\n  \"name\": \"now\",\n  \"arguments\": {}\n}\n```\n```\n{\"name\": \"now\"}\n``` after",
     "call_0 now({}) | call_1 now({}) | after"}, // Qwen2.5-Coder
    {call_syntax::hermes, "```json\n{\"name\": \"then\"}\n```", "```json\n{\"name\": \"then\"}\n```"},
    {call_syntax::hermes, "```json\n[1]\n```", "```json\n[1]\n```"},
    {call_syntax::hermes, "```python\n{}\n```", "```python\n{}\n```"},
    {call_syntax::hermes, "`now`", "`now`"},
    {call_syntax::hermes, "``", "``"},
    {call_syntax::hermes, "{\"name\": \"now\"}\n</tool_call>\n{\"name\": \"now\"}</tool_call> after",
     "call_0 now({}) | call_1 now({}) | after"}, // or the opening tag alone
    {call_syntax::hermes, "{\"name\": \"then\", \"arguments\": {}}",
     "{\"name\": \"then\", \"arguments\": {}}"},
    {call_syntax::hermes, "a {\"name\": \"now\"}", "a {\"name\": \"now\"}"},
    {call_syntax::hermes, "a <tool_ca", "a <tool_ca"},
    {call_syntax::hermes, "<tool_call>{\"na", "<tool_call>{\"na"},
    {call_syntax::hermes, " blanks stay \n", " blanks stay \n"},
    {call_syntax::qwen3_coder,
     "<tool_call>\n<function=weather>\n<parameter=city>\n12\n</parameter>\n<parameter=days>\n3\n</parameter>\n"
     "<parameter=other>\n{\"a\": true}\n</parameter>\n</function>\n</tool_call>",
     "call_0 weather({\"city\": \"12\", \"days\": 3, \"other\": {\"a\": true}})"},
    {call_syntax::qwen3_coder, "<tool_call>\n<function=now>\n</function>\n</tool_call>\nrest",
     "call_0 now({}) | rest"},
    {call_syntax::qwen3_coder,
     "<tool_call><function=weather><parameter=city>\na\n\"b\"\n</parameter><parameter=x>True</parameter></function>"
     "</tool_call>",
     "call_0 weather({\"city\": \"a\\n\\\"b\\\"\", \"x\": true})"},
    {call_syntax::qwen3_coder, "<tool_call>text</tool_call>", "<tool_call>text</tool_call>"},
    // Without <tool_call>, which the models may leave out: a call if the function exists.
    {call_syntax::qwen3_coder,
     "I look.\n\n<function=weather>\n<parameter=city>\nUlm\n</parameter>\n</function>\n</tool_call>\n"
     "<function=now>\n</function>",
     "I look. | call_0 weather({\"city\": \"Ulm\"}) | call_1 now({})"},
    {call_syntax::qwen3_coder, "Write <function=then> before\n<function=now></function>!",
     "Write <function=then> before | call_0 now({}) | !"},
    {call_syntax::qwen3_coder, "<tool_call>or <function=now></function></tool_call>",
     "<tool_call>or | call_0 now({})"},
    // Without a closing tag: of a value, of a function, of both.
    {call_syntax::qwen3_coder,
     "<tool_call>\n<function=weather>\n<parameter=city>\nUlm\n<parameter=days>\n3\n</function>\n</tool_call>\n"
     "<tool_call>\n<function=now>\n</function>\n</tool_call>",
     "call_0 weather({\"city\": \"Ulm\", \"days\": 3}) | call_1 now({})"},
    {call_syntax::qwen3_coder,
     "<tool_call><function=weather><parameter=city>1</parameter></tool_call><tool_call><function=f>"
     "<parameter=y>2</parameter></function></tool_call> after",
     "call_0 weather({\"city\": \"1\"}) | call_1 f({\"y\": 2}) | after"},
    {call_syntax::qwen3_coder,
     "<tool_call><function=f><parameter=y>2</parameter>\n<tool_call><function=now></function></tool_call>",
     "call_0 f({\"y\": 2}) | call_1 now({})"},
    {call_syntax::qwen3_coder, "<function=weather><parameter=city>1</parameter>\n<function=now></function>",
     "call_0 weather({\"city\": \"1\"}) | call_1 now({})"},
    {call_syntax::qwen3_coder,
     "<tool_call><function=f><parameter=y>a <parameter=z> b</function></tool_call>c\n</parameter></function></tool_call>",
     "call_0 f({\"y\": \"a <parameter=z> b</function></tool_call>c\"})"}, // a value about tags
    {call_syntax::qwen3_coder, "a <function=now", "a <function=now"},
    {call_syntax::qwen3_coder, "a <functi", "a <functi"},
    {call_syntax::qwen3_coder,
     "<tool_call><function=f><parameter=x>1,\"y\":2</parameter></function></tool_call>",
     "call_0 f({\"x\": \"1,\\\"y\\\":2\"})"},
    {call_syntax::glm,
     "Look:<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>Ulm</arg_value>\n<arg_key>days</arg_key>\n"
     "<arg_value>2</arg_value>\n</tool_call><tool_call>now</tool_call>",
     "Look: | call_0 weather({\"city\": \"Ulm\", \"days\": 2}) | call_1 now({})"},
    {call_syntax::llama3, "{\"name\": \"weather\", \"parameters\": {\"city\": \"Ulm\"}}",
     "call_0 weather({\"city\": \"Ulm\"})"},
    {call_syntax::llama3,
     "{\"name\": \"now\", \"parameters\": {}}; {\"name\": \"now\", \"parameters\": {\"a\": 1}}",
     "call_0 now({}) | call_1 now({\"a\": 1})"},
    {call_syntax::llama3,
     "<|python_tag|>{\"name\": \"now\", \"parameters\": {}}; {\"name\": \"now\", \"parameters\": {}}",
     "call_0 now({}) | call_1 now({})"},
    {call_syntax::llama3, "<|python_tag|>print(1)", "<|python_tag|>print(1)"},
    {call_syntax::llama3, "<|python_tag|>{\"name\": \"Bob\"}", "<|python_tag|>{\"name\": \"Bob\"}"},
    {call_syntax::llama3, "{\"name\": \"Bob\", \"parameters\": {}}",
     "{\"name\": \"Bob\", \"parameters\": {}}"},
    {call_syntax::llama3, "{\"answer\": 42}", "{\"answer\": 42}"},
    {call_syntax::llama3, "See {\"name\": \"now\"}", "See {\"name\": \"now\"}"},
    {call_syntax::mistral,
     "[TOOL_CALLS][{\"name\": \"now\", \"arguments\": {}, \"id\": \"123456789\"}, "
     "{\"name\": \"weather\", \"arguments\": {\"city\": \"Ulm\"}}]",
     "call_0 now({}) | call_1 weather({\"city\": \"Ulm\"})"},
    {call_syntax::mistral,
     "[TOOL_CALLS]weather[ARGS]{\"city\": \"{\"}[TOOL_CALLS]now[CALL_ID]123456789[ARGS]{}",
     "call_0 weather({\"city\": \"{\"}) | call_1 now({})"},
    {call_syntax::lfm2,
     "<|tool_call_start|>[weather(city=\"U\\\"lm\", days=3), now()]<|tool_call_end|>Checking.",
     "call_0 weather({\"city\": \"U\\\"lm\", \"days\": 3}) | call_1 now({}) | Checking."},
    {call_syntax::lfm2, "<|tool_call_start|>[f(a=['x', None, True, -1.5e3], b={'k': 'v'})]<|tool_call_end|>",
     "call_0 f({\"a\": [\"x\", null, true, -1.5e3], \"b\": {\"k\": \"v\"}})"},
    {call_syntax::lfm2,
     R"(<|tool_call_start|>[f(a="caf\u00e9 \x41\U0001F600 \ud83d\ude00 \ud83d. \u12 \xZZ \q \b", b='\'')]<|tool_call_end|>)",
     R"(call_0 f({"a": "café A😀 😀 �. \\u12 \\xZZ \\q \u0008", "b": "'"}))"},
    {call_syntax::lfm2, "<|tool_call_start|>[f(a=import os)]<|tool_call_end|>",
     "<|tool_call_start|>[f(a=import os)]<|tool_call_end|>"},
    {call_syntax::gemma4,
     "<|tool_call>call:weather{city:<|\"|>Ulm, \"D\"<|\"|>,days:2,o:{l:[1,true]}}<tool_call|>",
     "call_0 weather({\"city\": \"Ulm, \\\"D\\\"\", \"days\": 2, \"o\": {\"l\": [1, true]}})"},
};

TEST(output_pipeline, reads_the_calls_of_every_syntax) {
  for (const auto& one : outputs) EXPECT_EQ(told(plan_of(one.calls), one.text), one.expected) << one.text;
}

TEST(output_pipeline, does_not_depend_on_the_parts_in_which_text_arrives) {
  std::mt19937 random(7);
  for (const auto& one : outputs) {
    const std::string text = "<think>\nWell, \n so</think>\n\n" + std::string(one.text);
    const auto plan = plan_of(one.calls, true);
    const auto whole = read(plan, {text});
    EXPECT_EQ(told(read(plan, bytes_of(text))), told(whole)) << one.text;
    for (int i = 0; i < 50; ++i) {
      std::vector<std::string> parts;
      for (std::size_t at = 0; at < text.size();) {
        const auto size = 1 + random() % 9;
        parts.push_back(text.substr(at, size));
        at += size;
      }
      ASSERT_EQ(read(plan, parts), whole) << one.text;
    }
  }
}

TEST(output_pipeline, tells_thoughts_from_the_answer) {
  const auto plan = plan_of(call_syntax::none, true);
  EXPECT_EQ(told(plan, "<think>\na b\n</think>\n\nc <think>d"), "thinks:a b | c <think>d");
  EXPECT_EQ(told(plan, "\n<think></think>c"), "c");
  EXPECT_EQ(told(plan, "c </think> d"), "c </think> d");
  EXPECT_EQ(told(plan, "  c"), "  c");
  EXPECT_EQ(told(plan, "<thin"), "<thin");
  EXPECT_EQ(told(plan, "<think>cut </thi"), "thinks:cut </thi");
  auto inside = plan;
  inside.begins_inside_reasoning = true;
  EXPECT_EQ(told(inside, "a\n\n</think>b"), "thinks:a | b");
  EXPECT_EQ(told(inside, "only thoughts"), "thinks:only thoughts");
  auto dropping = plan;
  dropping.drops_reasoning = true;
  EXPECT_EQ(told(dropping, "<think>a</think>b"), "b");
  EXPECT_EQ(told(plan_of(call_syntax::hermes, true),
                 "<think><tool_call>{\"name\":\"now\"}</tool_call></think>"
                 "<tool_call>{\"name\":\"now\"}</tool_call>"),
            "thinks:<tool_call>{\"name\":\"now\"}</tool_call> | call_0 now({})");
}

TEST(output_pipeline, thoughts_that_do_not_end_may_hold_a_call) {
  auto plan = plan_of(call_syntax::qwen3_coder, true);
  plan.begins_inside_reasoning = true;
  const auto in_any_parts = [&](const std::string& text, bool is_cut = false) {
    const auto whole = told(read(plan, {text}, is_cut));
    EXPECT_EQ(told(read(plan, bytes_of(text), is_cut)), whole) << text;
    return whole;
  };
  const std::string call = "<tool_call>\n<function=now>\n</function>\n</tool_call>";
  EXPECT_EQ(in_any_parts("Let me check.\n" + call), "thinks:Let me check. | call_0 now({})");
  EXPECT_EQ(in_any_parts("Hm.\n<function=now>\n</function>\n</tool_call>" + call + " Done."),
            "thinks:Hm. | call_0 now({}) | call_1 now({}) | Done.");
  EXPECT_EQ(in_any_parts("So:\n\n<tool_call> is the tag.\n" + call),
            "thinks:So:\n\n<tool_call> is the tag. | call_0 now({})");
  EXPECT_EQ(in_any_parts("I write\n<tool_call> here "), "thinks:I write\n<tool_call> here");
  EXPECT_EQ(in_any_parts("I plan\n" + call + "\n</think>\nb"), "thinks:I plan\n" + call + " | b");
  EXPECT_EQ(in_any_parts("I plan\n" + call, true), "thinks:I plan\n" + call) << "it was still thinking";
  plan.drops_reasoning = true;
  EXPECT_EQ(in_any_parts("So: <tool_call> " + call), "call_0 now({})");
}

TEST(output_pipeline, thoughts_may_stay_in_the_text_in_front_of_a_bare_call) {
  auto plan = plan_of(call_syntax::hermes, true);
  plan.keeps_reasoning_in_text = true;
  const auto in_any_parts = [&](const std::string& text) {
    const auto whole = told(read(plan, {text}));
    EXPECT_EQ(told(read(plan, bytes_of(text))), whole) << text;
    return whole;
  };
  const std::string call = "{\"name\": \"now\"}";
  EXPECT_EQ(in_any_parts("\n<think>\n a </think>\n\n" + call), "\n<think>\n a </think> | call_0 now({})");
  for (const std::string text :
       {" <think>\na\n</think>\n\nb ", "<think> a", "<think> a </thi", "<thi", " a "})
    EXPECT_EQ(in_any_parts(text), text);
  output_pipeline pipeline(plan, nullptr);
  EXPECT_EQ(pipeline.feed("<think>a"), as_text("<think>a"));
  EXPECT_FALSE(pipeline.may_reason());
  EXPECT_EQ(pipeline.reasoning_bytes(), 0U);
  plan.begins_inside_reasoning = true;
  EXPECT_EQ(in_any_parts("a \n</think>\n" + call), "a \n</think> | call_0 now({})");
}

TEST(output_pipeline, counts_the_bytes_of_thoughts) {
  output_pipeline pipeline(plan_of(call_syntax::none, true), nullptr);
  pipeline.feed("<think>ab</th");
  EXPECT_EQ(pipeline.reasoning_bytes(), 9U);
  EXPECT_TRUE(pipeline.may_reason());
  pipeline.feed("ink>c");
  EXPECT_EQ(pipeline.reasoning_bytes(), 17U);
  EXPECT_FALSE(pipeline.may_reason());
}

TEST(output_pipeline, drops_what_follows_the_last_call_that_is_allowed) {
  auto plan = plan_of(call_syntax::hermes);
  plan.max_calls = 1;
  const std::string call = "<tool_call>{\"name\":\"now\",\"arguments\":{}}</tool_call>";
  EXPECT_EQ(told(plan, "a" + call + call + "b"), "a | call_0 now({})");
}

TEST(output_pipeline, passes_on_what_nothing_looks_for) {
  output_pipeline pipeline;
  EXPECT_TRUE(pipeline.finds_nothing());
  EXPECT_EQ(pipeline.feed(" <think>x "), as_text(" <think>x "));
  EXPECT_TRUE(pipeline.finish(false).empty());
}

TEST(output_pipeline, passes_arguments_on_as_they_arrive) {
  output_pipeline pipeline(plan_of(call_syntax::hermes), [] { return std::string("id"); });
  pipeline.feed("<tool_call>{\"name\": \"weather\", \"arguments\": {\"city\": \"U");
  const auto items = pipeline.feed("lm");
  ASSERT_EQ(items.size(), 1U);
  EXPECT_EQ(items[0].text, "lm");
}

TEST(output_pipeline, lets_an_answer_in_json_pass) {
  output_pipeline pipeline(plan_of(call_syntax::llama3), nullptr);
  EXPECT_EQ(pipeline.feed("{\"items\": [1,"), as_text("{\"items\": [1,"));
}

TEST(output_format, finds_the_syntax_in_a_rendered_call) {
  EXPECT_EQ(call_syntax_of("<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>", "f"),
            call_syntax::hermes);
  EXPECT_EQ(call_syntax_of("<tool_call>\n<function=f>\n", "f"), call_syntax::qwen3_coder);
  EXPECT_EQ(call_syntax_of("{\"name\": \"f\", \"parameters\": {}}", "f"), call_syntax::llama3);
  EXPECT_EQ(call_syntax_of("[TOOL_CALLS]f[ARGS]{}", "f"), call_syntax::mistral);
  EXPECT_EQ(call_syntax_of("[TOOL_CALLS] [{\"name\": \"f\"", "f"), call_syntax::mistral);
  EXPECT_EQ(call_syntax_of("<function=g>", "f"), call_syntax::none);
}

TEST(output_format, sees_a_prompt_that_ends_with_an_open_thought) {
  EXPECT_TRUE(ends_inside_reasoning("<|assistant|><think>\n", think_markers));
  EXPECT_FALSE(ends_inside_reasoning("<think>\n\n</think>\n\n", think_markers));
  EXPECT_FALSE(ends_inside_reasoning("<think>", {}));
}

TEST(output_pipeline, arguments_end_where_the_model_ends_its_output) {
  const std::pair<const char*, const char*> cases[] = {
      {"<tool_call><function=f><parameter=x>\nUlm\n</parameter>", "call_0 f({\"x\": \"Ulm\""},
      {"<tool_call><function=f><parameter=x>\nUlm\n</parameter>\n</func", "call_0 f({\"x\": \"Ulm\""},
      {"<tool_call><function=f><parameter=x>\nUlm\n</para", "call_0 f({\"x\": \"Ulm"}};
  for (const auto& [text, open] : cases) {
    EXPECT_EQ(told(read(plan_of(call_syntax::qwen3_coder), {text}, true)).find(open), 0U) << text;
    EXPECT_EQ(told(read(plan_of(call_syntax::qwen3_coder), {text}, true)).find('}'), std::string::npos);
    EXPECT_EQ(told(read(plan_of(call_syntax::qwen3_coder), {text}, false)).find("call_0 f({\"x\": \"Ulm\"})"),
              0U)
        << text;
  }
}

TEST(output_pipeline, a_call_that_the_model_ends_before_its_arguments_has_none) {
  for (const auto& [syntax, text] : {std::pair{call_syntax::hermes, R"(<tool_call>{"name": "now")"},
                                     std::pair{call_syntax::qwen3_coder, "<tool_call><function=now>"}}) {
    EXPECT_EQ(told(read(plan_of(syntax), {text}, false)), "call_0 now({})") << text;
    EXPECT_EQ(told(read(plan_of(syntax), {text}, true)), "call_0 now(") << "without an end: " << text;
  }
}

TEST(tool_signatures, know_which_parameters_are_texts) {
  const auto tools = plan_of(call_syntax::glm).tools;
  EXPECT_TRUE(tools->has("now"));
  EXPECT_FALSE(tools->has("then"));
  EXPECT_EQ(tools->values_of("weather", "city"), tool_signatures::value::text);
  EXPECT_NE(tools->values_of("weather", "note"), tool_signatures::value::any);
  EXPECT_EQ(tools->values_of("weather", "days"), tool_signatures::value::any);
  EXPECT_EQ(tools->values_of("now", "x"), tool_signatures::value::any);
  const tool_signatures optional(R"([{"function":{"name":"f","parameters":{"properties":{
    "a":{"anyOf":[{"type":"string"},{"type":"null"}]},"b":{"oneOf":[{"type":"integer"},{"type":"string"}]},
    "c":{"enum":["x","y"]},"d":{"enum":["x",1]},"e":{"const":"x"},"f":{"type":"null"},"g":{"type":[]},"h":{}}}}}])");
  EXPECT_EQ(optional.values_of("f", "a"), tool_signatures::value::text_or_null);
  for (const char* const text : {"c", "e"})
    EXPECT_EQ(optional.values_of("f", text), tool_signatures::value::text) << text;
  for (const char* const other : {"b", "d", "f", "g", "h"})
    EXPECT_EQ(optional.values_of("f", other), tool_signatures::value::any) << other;
}

TEST(callable_functions, have_objects_as_arguments) {
  const auto arguments = [](const std::string& parameters) {
    const auto tools = R"([{"type":"function","function":{"name":"f","parameters":)" + parameters + "}}]";
    return callable_functions(tools, "", true).at(0).arguments;
  };
  const std::string any = R"({"type":"object"})";
  for (const char* const nothing : {"{}", "true", "null"}) EXPECT_EQ(arguments(nothing), any) << nothing;
  EXPECT_EQ(arguments(R"({"properties":{}})"), R"({"type":"object","properties":{}})");
  EXPECT_EQ(arguments(R"({"type":"object","properties":{}})"), R"({"type":"object","properties":{}})");
  EXPECT_EQ(arguments(R"({"properties":{},"type":["null","object"],"title":"t"})"),
            R"({"properties":{},"type":"object","title":"t"})");
  EXPECT_EQ(arguments(R"({"properties":{"type":{"type":["object","null"]}},"type":["object", "null"]})"),
            R"({"properties":{"type":{"type":["object","null"]}},"type":"object"})");
}

} // namespace
} // namespace paceline::wire::output_pipeline_test
