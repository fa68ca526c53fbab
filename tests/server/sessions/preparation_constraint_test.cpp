// Constraints of requests: what is compiled for them, and when.
#include "server/sessions/preparation.hpp"

#include "runtime/grammar/schema_grammar.hpp"
#include "scripted_backend.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

namespace paceline::server {
namespace {

/// A constraint that allows any tokens, or none.
class uniform_constraint final : public token_constraint {
  class cursor final : public constraint_cursor {
   public:
    explicit cursor(bool allows) : allows_(allows), mask_(10, allows ? 0xFFFFFFFFU : 0) {}
    std::span<const std::uint32_t> allowed(std::span<const token_id>, std::span<const token_id>) override {
      return mask_;
    }
    std::size_t num_allowed(std::span<const token_id>, std::span<const token_id>,
                            std::span<const token_id> next) override {
      return allows_ ? next.size() : 0;
    }
    std::optional<token_id> append_forced(std::span<const token_id>, std::size_t,
                                          std::vector<token_id>&) override {
      return std::nullopt;
    }

   private:
    bool allows_;
    std::vector<std::uint32_t> mask_;
  };

 public:
  explicit uniform_constraint(bool allows) : allows_(allows) {}
  std::unique_ptr<constraint_cursor> begin() const override { return std::make_unique<cursor>(allows_); }
  std::size_t num_bytes() const noexcept override { return 0; }

 private:
  bool allows_;
};

TEST(preparation_of_constraints, a_call_in_harmony_is_asked_for_by_its_header) {
  scripted_edge edge;
  auto& model = edge.engine.bytes;
  model.takes_tools = true;
  model.format.calls = call_syntax::harmony;
  model.constraint = std::make_shared<const uniform_constraint>(true);
  const auto prepared = [&](const std::string& members) {
    return prepare_chat(
        edge.context, {},
        R"({"messages":[{"role":"user","content":"x"}],"tools":[{"type":"function","function":{"name":"f","parameters":)"
        R"({"type":"object","required":["a"]}}},{"type":"function","function":{"name":"g"}}])" +
            members + "}");
  };
  const auto num_allowed = [&](const wire::parsed<prepared_completion>& made, const std::string& text) {
    return made->sequences[0].constraint->begin()->num_allowed({}, {},
                                                               *model.encode(text, false, true, 4096));
  };
  const auto free = prepared("");
  EXPECT_TRUE(free->output.in_harmony);
  EXPECT_FALSE(free->sequences[0].skip_special_tokens);
  EXPECT_FALSE(free->sequences[0].constraint);

  const auto asked = prepared(R"(,"tool_choice":"required")");
  ASSERT_TRUE(asked) << asked.failure().message;
  EXPECT_EQ(asked->output.calls, call_syntax::harmony);
  EXPECT_EQ(asked->output.max_calls, 1U);
  ASSERT_EQ(model.compiled.size(), 2U);
  EXPECT_EQ(model.compiled[0].text, R"({"type":"object","required":["a"]})");
  EXPECT_EQ(model.compiled[1].text, R"({"type":"object"})");
  for (const std::string name : {"f", "g"}) {
    const auto call = "<|channel|>commentary to=functions." + name + " <|constrain|>json<|message|>{";
    EXPECT_EQ(num_allowed(asked, call), call.size());
  }
  EXPECT_EQ(num_allowed(asked, "<|channel|>final"), 11U);
  const auto named = prepared(R"(,"tool_choice":{"type":"function","function":{"name":"g"}})");
  EXPECT_EQ(num_allowed(named, "<|channel|>commentary to=functions.f"), 35U);

  const auto* chat =
      R"({"messages":[{"role":"user","content":"x"}],"response_format":{"type":"json_object"}})";
  const auto constrained = prepare_chat(edge.context, {}, chat);
  EXPECT_EQ(num_allowed(constrained, "<|channel|>final<|message|>{"), 28U);
  EXPECT_EQ(num_allowed(constrained, "{"), 0U);
  const auto either = prepared(R"(,"response_format":{"type":"json_object"})");
  EXPECT_EQ(num_allowed(either, "<|channel|>final<|message|>{"), 28U);
  EXPECT_EQ(num_allowed(either, "<|channel|>commentary to=functions.g"), 36U);
}

TEST(preparation_of_constraints, thoughts_in_harmony_end_by_their_own_mark_alone) {
  scripted_edge edge;
  auto& model = edge.engine.bytes;
  model.format.calls = call_syntax::harmony;
  model.format.reasoning = wire::harmony_markers;
  model.marks = {"<|start|>", "<|channel|>", "<|message|>", "<|end|>", "<|return|>", "<|call|>"};
  model.constraint = std::make_shared<const uniform_constraint>(true);
  const auto made = prepare_chat(
      edge.context, {},
      R"({"messages":[{"role":"user","content":"x"}],"response_format":{"type":"json_object"}})");
  ASSERT_TRUE(made) << made.failure().message;
  const auto thought = *model.encode("<|channel|>analysis<|message|>so", false, true, 4096);
  const auto cursor = made->sequences[0].constraint->begin();
  ASSERT_EQ(cursor->num_allowed({}, {}, thought), thought.size());
  const auto allows = [&](const std::string& mark) {
    const auto next = *model.encode(mark, false, true, 4096);
    const auto id = static_cast<std::size_t>(next.at(0).value);
    const bool in_mask = (cursor->allowed(thought, {})[id / 32] >> (id % 32) & 1U) != 0;
    EXPECT_EQ(cursor->num_allowed(thought, {}, {next.data(), 1}) == 1, in_mask) << mark;
    return in_mask;
  };
  for (const auto* mark : {"<|start|>", "<|return|>", "<|call|>"}) EXPECT_FALSE(allows(mark)) << mark;
  for (const auto* mark : {"<|end|>", " "}) EXPECT_TRUE(allows(mark)) << mark;
}

TEST(preparation_of_constraints, thoughts_that_the_prompt_opens_are_free_also_if_they_are_not_separated) {
  scripted_edge edge;
  auto& model = edge.engine.bytes;
  model.thinks.any = true;
  model.format.reasoning = wire::think_markers;
  model.constraint = std::make_shared<const uniform_constraint>(false);
  const auto allows = [&](const std::string& prompt, const std::string& members) {
    const auto made = prepare_chat(edge.context, {},
                                   R"({"messages":[{"role":"user","content":")" + prompt +
                                       R"("}],"response_format":{"type":"json_object"})" + members + "}");
    const auto next = *model.encode("so", false, true, 16);
    return made->sequences[0].constraint->begin()->num_allowed({}, {}, next) > 0;
  };
  const std::vector<std::string> as_tokens{wire::think_markers.open, wire::think_markers.close};
  for (const auto& marks : {as_tokens, std::vector<std::string>()}) {
    model.marks = marks; // without them, the marks are spelled by several tokens
    for (const auto* members : {"", R"(,"reasoning_format":"none")"}) {
      EXPECT_TRUE(allows("<think>", members)) << members;
      EXPECT_FALSE(allows("x", members)) << members;
    }
  }
}

TEST(preparation_of_constraints, a_name_that_harmony_cannot_write_is_refused) {
  scripted_edge edge;
  auto& model = edge.engine.bytes;
  model.takes_tools = true;
  const auto param = [&](const std::string& name, const std::string& members) {
    const auto made = prepare_chat(
        edge.context, {},
        R"({"messages":[{"role":"user","content":"x"}],"tools":[{"type":"function","function":{"name":"f"}},)"
        R"({"type":"function","function":{"name":")" +
            name + R"("}}])" + members + "}");
    if (made) return std::string();
    EXPECT_NE(made.failure().message.find(name), std::string::npos) << made.failure().message;
    EXPECT_EQ(made.failure().status, 400);
    return made.failure().param;
  };
  model.format.calls = call_syntax::harmony;
  for (const std::string members : {"", R"(,"tool_choice":"required")"}) {
    for (const auto* name : {"get weather", "wetter_für", "f(x)", "a<b"})
      EXPECT_EQ(param(name, members), "tools") << name;
    EXPECT_EQ(param("a_b-c.d/e:9", ""), "");
  }
  EXPECT_EQ(param("get weather", R"(,"tool_choice":"none")"), "");
  model.format.calls = call_syntax::hermes;
  EXPECT_EQ(param("get weather", ""), "");
}

TEST(preparation_of_constraints, the_grammars_of_all_tools_together_are_bounded) {
  scripted_edge edge;
  auto& model = edge.engine.bytes;
  model.takes_tools = true;
  model.format.calls = call_syntax::harmony;
  model.set_context_length(1'000'000);
  // Each parameter takes 100 of the 384 places that texts of limited length have.
  const auto prepared = [&](int count, const std::string& strict) {
    model.compiled.clear();
    std::string tools;
    for (int i = 0; i < count; ++i)
      tools += (i > 0 ? "," : "") + std::string(R"({"type":"function","function":{"name":"f)") +
               std::to_string(i) + "\"" + strict +
               R"(,"parameters":{"type":"object","properties":{"a":{"type":"string","maxLength":100}},)"
               R"("required":["a"],"additionalProperties":false}}})";
    return prepare_chat(edge.context, {},
                        R"({"messages":[{"role":"user","content":"x"}],"tool_choice":"required","tools":[)" +
                            tools + "]}");
  };
  const std::string strict = R"(,"strict":true)";
  ASSERT_TRUE(prepared(3, strict));
  EXPECT_NE(model.compiled.at(2).text, R"({"type":"object"})");
  const auto refused = prepared(4, strict);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.failure().param, "tool_choice");
  EXPECT_NE(refused.failure().message.find("\"f3\""), std::string::npos) << refused.failure().message;
  EXPECT_TRUE(model.compiled.empty());
  ASSERT_TRUE(prepared(4, ""));
  ASSERT_EQ(model.compiled.size(), 4U);
  for (const auto& one : model.compiled) EXPECT_EQ(one.text, R"({"type":"object"})");
}

TEST(preparation_of_constraints, a_tool_that_cannot_be_enforced_takes_any_object_and_the_others_do_not) {
  scripted_edge edge;
  auto& model = edge.engine.bytes;
  model.takes_tools = true;
  model.format.calls = call_syntax::harmony;
  model.refused_part = "\"$dynamicRef\"";
  const auto tool = [](const std::string& name, const std::string& parameters) {
    return R"({"type":"function","function":{"name":")" + name + R"(","parameters":)" + parameters + "}}";
  };
  ASSERT_TRUE(
      prepare_chat(edge.context, {},
                   R"({"messages":[{"role":"user","content":"x"}],"tool_choice":"required","tools":[)" +
                       tool("f", R"({"type":"object","properties":{"a":{"$dynamicRef":"#x"}}})") + "," +
                       tool("g", R"({"type":"object","properties":{"a":{"const":1}}})") + "]}"));
  ASSERT_GE(model.compiled.size(), 2U);
  EXPECT_EQ(model.compiled[model.compiled.size() - 2].text, R"({"type":"object"})");
  EXPECT_NE(model.compiled.back().text.find("const"), std::string::npos) << model.compiled.back().text;
}

/// Schemas are converted one by one only as long as they may cost as much as one.
TEST(preparation_of_constraints, tools_that_are_too_large_together_are_not_all_tried) {
  scripted_edge edge;
  auto& model = edge.engine.bytes;
  model.speak_hermes();
  model.set_context_length(1'000'000);
  model.refused_part = "\"refused\"";
  const auto tool = [](const std::string& parameters) {
    return R"({"type":"function","function":{"name":"f","parameters":)" + parameters + "}}";
  };
  const auto last_compiled = [&](const std::string& tools) {
    model.compiled.clear();
    const auto made = prepare_chat(
        edge.context, {},
        R"({"messages":[{"role":"user","content":"x"}],"tool_choice":"required","tools":[)" + tools + "]}");
    EXPECT_TRUE(made);
    return model.compiled.empty() ? "" : model.compiled.back().text;
  };
  // Each parameter takes 100 of the 384 places that texts of limited length have.
  const auto large = tool(R"({"type":"object","properties":{"a":{"type":"string","maxLength":100}}})");
  const auto wrong = tool(R"({"type":"object","title":"refused","properties":{"a":{"$ref":"#x"}}})");
  const std::string mark = "maxLength";
  EXPECT_NE(last_compiled(wrong + "," + large + "," + large).find(mark), std::string::npos);
  const auto many = last_compiled(wrong + "," + large + "," + large + "," + large + "," + large);
  EXPECT_EQ(many.find(mark), std::string::npos) << many;

  // One that takes all steps of a conversion is left out, and the others are not.
  std::string endless = R"({"title":"refused","$ref":"#/$defs/a0","$defs":{)";
  for (int i = 0; i < 25; ++i) {
    const auto next = R"({"$ref":"#/$defs/a)" + std::to_string(i + 1) + "\"}";
    endless += "\"a" + std::to_string(i) + R"(":{"anyOf":[)" + next + "," + next + "]},";
  }
  endless += R"("a25":{"type":"integer"}}})";
  EXPECT_NE(last_compiled(tool(endless) + "," + large).find(mark), std::string::npos);
  EXPECT_EQ(last_compiled(tool(endless) + "," + tool(endless) + "," + tool(endless) + "," + large).find(mark),
            std::string::npos);
}

TEST(preparation_of_constraints, the_refusal_of_a_strict_tool_names_it) {
  scripted_edge edge;
  auto& model = edge.engine.bytes;
  model.takes_tools = true;
  model.refused_part = "\"$dynamicRef\"";
  const auto refusal = [&](call_syntax calls) {
    model.format.calls = calls;
    const auto made = prepare_chat(
        edge.context, {},
        R"({"messages":[{"role":"user","content":"x"}],"tool_choice":"required","tools":[)"
        R"({"type":"function","function":{"name":"good","strict":true,"parameters":{"type":"object"}}},)"
        R"({"type":"function","function":{"name":"bad","strict":true,"parameters":{"type":"object",)"
        R"("properties":{"a":{"$dynamicRef":"#x"}}}}}]})");
    return made ? "" : made.failure().param + " | " + made.failure().message;
  };
  for (const auto calls : {call_syntax::hermes, call_syntax::harmony})
    EXPECT_TRUE(refusal(calls).starts_with("tools | tools: the parameters of \"bad\": ")) << refusal(calls);
}

TEST(preparation_of_constraints, references_in_the_schema_of_a_tool_are_its_own) {
  scripted_edge edge;
  auto& model = edge.engine.bytes;
  model.speak_hermes();
  const auto tool = [](const std::string& name) {
    return R"({"type":"function","function":{"name":")" + name +
           R"(","strict":true,"parameters":{"$defs":{"item":{"const":"of )" + name +
           R"("}},"type":"object","properties":{"a":{"$ref":"#/$defs/item"}},"required":["a"]}}})";
  };
  ASSERT_TRUE(
      prepare_chat(edge.context, {},
                   R"({"messages":[{"role":"user","content":"x"}],"tool_choice":"required","tools":[)" +
                       tool("f") + "," + tool("g") + "]}"));
  ASSERT_EQ(model.compiled.size(), 1U);
  const auto ebnf = grammar::schema_to_ebnf(model.compiled[0].text);
  ASSERT_TRUE(ebnf) << ebnf.error().message();
  for (const auto* text : {"of\\u0020f", "of\\u0020g"})
    EXPECT_NE(ebnf->find(text), std::string::npos) << *ebnf;
}

TEST(preparation_of_constraints, nothing_is_compiled_for_a_request_that_is_refused_for_something_else) {
  const std::string turns = R"("messages":[{"role":"user","content":"x"}])";
  const auto completion = [](const edge_context& edge, const std::string& members) {
    const auto made = prepare_completion(edge, {}, R"({"prompt":["a","b"])" + members + "}");
    return made ? "" : made.failure().param;
  };
  const auto chat = [&](const edge_context& edge, const std::string& members) {
    const auto made = prepare_chat(edge, {}, "{" + turns + members + "}");
    return made ? "" : made.failure().param;
  };
  const auto message = [&](const edge_context& edge, const std::string& members) {
    const auto made = prepare_message(edge, {}, R"({"max_tokens":4,)" + turns + members + "}");
    return made ? "" : made.failure().param;
  };
  const auto response = [](const edge_context& edge, const std::string& members) {
    const auto made =
        prepare_response(edge, {}, *wire::parse_response_request(R"({"input":"x")" + members + "}", {}), {});
    return made ? "" : made.failure().param;
  };
  const std::vector<std::function<std::string(const edge_context&, const std::string&)>> endpoints{
      completion, chat, message, response};
  for (std::size_t i = 0; i < endpoints.size(); ++i) {
    SCOPED_TRACE(i);
    scripted_edge edge;
    const std::string schema = R"(,"guided_regex":"a+")";
    EXPECT_EQ(endpoints[i](edge.context, schema + R"(,"logit_bias":{"9999":1})"), "logit_bias");
    EXPECT_EQ(endpoints[i](edge.context, schema + R"(,"prediction":{"type":"content","content":[9999]})"),
              "prediction.content");
    EXPECT_EQ(endpoints[i](edge.context, schema + R"(,"speculation":{"drafter":"unknown"})"),
              "speculation.drafter");
    EXPECT_TRUE(edge.engine.bytes.compiled.empty());
    EXPECT_EQ(endpoints[i](edge.context, schema), "");
    EXPECT_EQ(edge.engine.bytes.compiled.size(), 1U) << "once for all prompts";
  }
}

TEST(preparation_of_constraints, a_message_is_constrained_as_a_chat_is) {
  scripted_edge edge;
  const auto prepared = [&](const std::string& members) {
    return prepare_message(edge.context, {},
                           R"({"max_tokens":4,"messages":[{"role":"user","content":"x"}],)" + members + "}");
  };
  const std::string format =
      R"("output_config":{"format":{"type":"json_schema","schema":{"type":"object"}}})";
  ASSERT_TRUE(prepared(format));
  ASSERT_EQ(edge.engine.bytes.compiled.size(), 1U);
  EXPECT_EQ(edge.engine.bytes.compiled[0].what, grammar::grammar_source::kind::json_schema);
  EXPECT_EQ(edge.engine.bytes.compiled[0].text, R"({"type":"object"})");
  ASSERT_TRUE(prepared(R"("guided_regex":"a+")"));
  ASSERT_EQ(edge.engine.bytes.compiled.size(), 2U);
  EXPECT_EQ(edge.engine.bytes.compiled[1].text, "a+");
  EXPECT_EQ(prepared(format + R"(,"min_tokens":2)").failure().param, "min_tokens");
}

} // namespace
} // namespace paceline::server
