#include "protocol/wire/output/output_pipeline.hpp"

#include "output_reading.hpp"

#include <gtest/gtest.h>

namespace paceline::wire {
namespace {

output_plan harmony_plan() {
  output_plan plan;
  plan.in_harmony = true;
  plan.calls = call_syntax::harmony;
  plan.reasoning = harmony_markers;
  return plan;
}

/// Outputs after a prompt that ends with <|start|>assistant, without the token that ends the generation.
struct spelled_output {
  const char* text;
  const char* expected;
};

const spelled_output outputs[] = {
    {"<|channel|>final<|message|>Hello.", "Hello."},
    {"<|channel|>analysis<|message|>They greet.\n<|end|><|start|>assistant<|channel|>final<|message|>Hello.<|return|>",
     "thinks:They greet.\n | Hello."},
    {"<|channel|>analysis<|message|>Need the weather.<|end|><|start|>assistant<|channel|>commentary "
     "to=functions.weather <|constrain|>json<|message|>{\"city\": \"Ulm\"}<|call|>",
     "thinks:Need the weather. | call_0 weather({\"city\": \"Ulm\"})"},
    {"<|channel|>commentary to=functions.weather <|constrain|>json<|message|>{\"city\": \"Ulm\"}",
     "call_0 weather({\"city\": \"Ulm\"})"}, // <|call|> has ended the generation
    {" to=functions.weather<|channel|>commentary json<|message|>{}<|call|>", "call_0 weather({})"},
    {" to=functions.weather<|channel|>commentary<|message|>\n{\"a\":[{\"b\":\"}\"}]} <|call|>",
     "call_0 weather({\"a\":[{\"b\":\"}\"}]})"},
    {"<|channel|>analysis to=functions.now code<|message|>{}", "call_0 now({})"},
    {"<|channel|>commentary to=functions.now<|message|><|call|>", "call_0 now({})"},
    {"<|channel|>commentary to=functions.now<|message|> ", "call_0 now({})"},
    {"<|channel|>commentary to=browser.search<|message|>{\"query\":\"x\"}",
     "call_0 browser.search({\"query\":\"x\"})"},
    {"<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>commentary<|message|>I look it up.<|end|>"
     "<|start|>assistant<|channel|>analysis<|message|>b<|end|>"
     "<|start|>assistant to=functions.now<|channel|>commentary <|constrain|>json<|message|>{}<|call|>",
     "thinks:a | I look it up. | thinks:\n\nb | call_0 now({})"},
    {"<|channel|>commentary<|message|>First.<|end|><|start|>assistant<|channel|>final<|message|>Second.",
     "First.\n\nSecond."},
    {"<|channel|>commentary to=functions.now<|message|>{}<|call|><|start|>assistant<|channel|>commentary "
     "to=functions.weather<|message|>{\"city\":\"<|call|> \\\"<|end|>\"}<|call|>",
     "call_0 now({}) | call_1 weather({\"city\":\"<|call|> \\\"<|end|>\"})"}, // marks in a text are text
    {"<|channel|>commentary to=functions.now<|message|>{\"a\":\"b\nc\"}", "call_0 now({\"a\":\"b\\nc\"})"},
    {"<|channel|>commentary to=functions.now<|message|>{\"a\":\"Ul", "call_0 now({\"a\":\"Ul)"}, // cut
    {"<|channel|>commentary to=functions.now<|message|>{\"a\":1<|call|>", "call_0 now({\"a\":1)"},
    {"<|channel|>commentary to=functions.now<|message|>no object<|call|>",
     "<|channel|>commentary to=functions.now<|message|>no object<|call|>"},
    {"<|channel|>commentary to=functions.now<|message|>{} and more<|call|>", "call_0 now({}) | and more"},
    {"<|channel|>final <|constrain|>json<|message|>{\"a\":1}<|return|>", "{\"a\":1}"},
    {"<|channel|>commentary to=all<|message|>x", "x"},
    {"<|channel|>analysis<|message|>cut", "thinks:cut"},
    {"<|channel|>analysis<|message|>a<|end|><|start|>assis", "thinks:a"},
    {"<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>fi", "thinks:a"},
    {"<|channel|>analysis<|message|>a<|start|>assistant<|channel|>final<|message|>b", "thinks:a | b"},
    {"<|channel|>analysis<|message|>a<|end|><|channel|>final<|message|>b", "thinks:a | b"},
    {"<|channel|>analysis<|message|><|end|><|start|>assistant<|channel|>final<|message|>b", "b"},
    {"<|message|>no channel", "no channel"},
    {"Plain text.", "Plain text."},
    {" \n", " \n"},
    {"to", "to"},
    {"<|channel|>final<|message|>It ends with <|end|> and not with <|start|> alone.",
     "It ends with <|end|> and not with <|start|> alone."},
    {"<|channel|>final\n<|message|>a", "<|channel|>final\n<|message|>a"},
    {"<|channel|>final, they say:<|message|>a", "<|channel|>final, they say:<|message|>a"},
    {"<|start|>user<|message|>Hi<|end|>", "<|start|>user<|message|>Hi<|end|>"},
    {"<|channel|>final<|message|>a <| b <|e", "a <| b <|e"},
};

TEST(harmony_split, reads_messages) {
  for (const auto& one : outputs)
    EXPECT_EQ(test::told(test::read(harmony_plan(), {one.text})), one.expected) << one.text;
}

TEST(harmony_split, does_not_depend_on_the_parts_in_which_text_arrives) {
  for (const auto& one : outputs) {
    const std::string text = one.text;
    for (std::size_t at = 0; at <= text.size(); ++at)
      ASSERT_EQ(test::told(test::read(harmony_plan(), {text.substr(0, at), text.substr(at)})), one.expected)
          << text << " at " << at;
    EXPECT_EQ(test::told(test::read(harmony_plan(), test::bytes_of(text))), one.expected) << text;
  }
}

TEST(harmony_split, leaves_what_is_not_asked_for_in_the_text) {
  const std::string thought = "<|channel|>analysis<|message|>a<|end|>";
  const std::string call = "<|start|>assistant to=functions.now<|channel|>commentary<|message|>{}<|call|>";
  const std::string answer = "<|start|>assistant<|channel|>final<|message|>b";
  auto plan = harmony_plan();
  plan.calls = call_syntax::none;
  EXPECT_EQ(test::told(test::read(plan, {thought + call + answer})), "thinks:a | " + call + "b");
  plan = harmony_plan();
  plan.reasoning = {};
  EXPECT_EQ(test::told(test::read(plan, {thought + call})), thought + " | call_0 now({})");
  plan = harmony_plan();
  plan.drops_reasoning = true;
  EXPECT_EQ(test::told(test::read(plan, {thought + answer})), "b");
}

TEST(harmony_split, begins_where_the_prompt_ends) {
  auto plan = harmony_plan();
  plan.begins_inside_reasoning = true;
  EXPECT_EQ(test::told(test::read(plan, {"a<|end|><|start|>assistant<|channel|>final<|message|>b"})),
            "thinks:a | b");
  plan.reasoning = {};
  EXPECT_EQ(test::told(test::read(plan, {"a<|end|><|start|>assistant<|channel|>final<|message|>b"})),
            "a<|end|>b");
  EXPECT_TRUE(ends_inside_reasoning("<|start|>assistant<|channel|>analysis<|message|>", harmony_markers));
}

TEST(harmony_split, drops_what_follows_the_last_call_that_is_allowed) {
  auto plan = harmony_plan();
  plan.max_calls = 1;
  const std::string call = "<|start|>assistant to=functions.now<|channel|>commentary<|message|>{}<|call|>";
  EXPECT_EQ(test::told(test::read(plan, {call + call + "b"})), "call_0 now({})");
}

TEST(harmony_split, a_call_that_is_cut_before_its_arguments_has_none) {
  for (const std::string behind : {"", " "}) {
    const auto text = "<|channel|>commentary to=functions.now<|message|>" + behind;
    EXPECT_EQ(test::told(test::read(harmony_plan(), {text}, true)), "call_0 now(") << "without an end";
    EXPECT_EQ(test::told(test::read(harmony_plan(), {text}, false)), "call_0 now({})");
  }
}

TEST(harmony_split, passes_text_and_arguments_on_as_they_arrive) {
  output_pipeline pipeline(harmony_plan(), [] { return std::string("id"); });
  EXPECT_EQ(test::told(pipeline.feed("<|channel|>analysis<|message|>a b")), "thinks:a b");
  EXPECT_EQ(test::told(pipeline.feed(
                " c<|end|><|start|>assistant to=functions.now<|channel|>x<|message|>{\"a\": 1")),
            "thinks: c | id now({\"a\": 1");
  EXPECT_EQ(pipeline.feed("2").at(0).text, "2");
}

TEST(harmony_split, counts_the_bytes_of_thoughts) {
  output_pipeline pipeline(harmony_plan(), nullptr);
  const std::string thought = "<|channel|>analysis<|message|>ab";
  pipeline.feed(thought);
  EXPECT_EQ(pipeline.reasoning_bytes(), thought.size());
  EXPECT_TRUE(pipeline.may_reason());
  const std::string header = "<|end|><|start|>assistant<|channel|>final<|message|>";
  pipeline.feed(header + "c");
  EXPECT_EQ(pipeline.reasoning_bytes(), thought.size() + header.size());
  EXPECT_FALSE(pipeline.may_reason());
  output_pipeline answer(harmony_plan(), nullptr);
  answer.feed("<|channel|>final<|message|>c");
  EXPECT_EQ(answer.reasoning_bytes(), 0U);
  EXPECT_FALSE(answer.may_reason());
}

TEST(harmony_split, bounds_what_may_be_a_header) {
  const auto text = "<|channel|>" + std::string(600, 'x') + "<|message|>a";
  EXPECT_EQ(test::told(test::read(harmony_plan(), {text})), text);
  EXPECT_EQ(test::told(test::read(harmony_plan(), test::bytes_of(text))), text);
  const auto blanks = std::string(600, ' ') + "<|channel|>final<|message|>a";
  EXPECT_EQ(test::told(test::read(harmony_plan(), test::bytes_of(blanks))), blanks);
}

TEST(output_format, finds_harmony_in_a_rendered_call) {
  EXPECT_EQ(
      call_syntax_of("<|start|>assistant to=functions.f<|channel|>commentary json<|message|>{}<|call|>", "f"),
      call_syntax::harmony);
  EXPECT_EQ(call_syntax_of("to=functions.g<|channel|>", "f"), call_syntax::none);
}

} // namespace
} // namespace paceline::wire
