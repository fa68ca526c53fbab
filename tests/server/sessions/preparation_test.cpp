#include "server/sessions/preparation.hpp"

#include "server/sessions/conversion.hpp"

#include "scripted_backend.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <string>
#include <vector>

namespace paceline::server {
namespace {

TEST(preparation, an_unknown_model_is_404) {
  scripted_edge edge;
  const auto refused = prepare_completion(edge.context, {}, R"({"prompt":"a","model":"gpt"})");
  EXPECT_EQ(refused.failure().status, 404);
  EXPECT_EQ(refused.failure().code, "model_not_found");
  for (const auto* name : {"", "default", "alias", "bytes"})
    EXPECT_TRUE(prepare_completion(edge.context, {},
                                   std::string(R"({"prompt":"a","model":")").append(name).append("\"}")))
        << name;
}

TEST(preparation, path_and_body_name_the_same_model) {
  scripted_edge edge;
  edge.engine.other = std::make_unique<byte_model>("other");
  const auto model = [&](const char* path, const char* body) {
    const auto found = find_model(edge.engine, path, body);
    return found ? (*found)->limits().name : found.failure().code;
  };
  EXPECT_EQ(model("", ""), "bytes");
  EXPECT_EQ(model("other", ""), "other");
  EXPECT_EQ(model("other", "default"), "other");
  EXPECT_EQ(model("other", "other"), "other");
  EXPECT_EQ(model("bytes", "alias"), "bytes");
  EXPECT_EQ(model("other", "bytes"), "invalid_value");
  EXPECT_EQ(model("other", "gpt"), "model_not_found");
  EXPECT_EQ(model("gpt", "other"), "model_not_found");
  const auto* prompt = R"({"prompt":"a"})";
  EXPECT_EQ(prepare_completion(edge.context, {}, prompt, "other")->model, edge.engine.other.get());
  const auto* chat = R"({"messages":[{"role":"user","content":"x"}]})";
  EXPECT_EQ(prepare_chat(edge.context, {}, chat, "other")->model, edge.engine.other.get());
}

TEST(preparation, a_tokenizer_is_named_where_there_are_several) {
  scripted_edge edge;
  EXPECT_TRUE(find_tokenizer(edge.engine, "", "")) << "there is one only";
  edge.engine.other = std::make_unique<byte_model>("other");
  const auto refused = find_tokenizer(edge.engine, "", "");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.failure().param, "model");
  EXPECT_NE(refused.failure().message.find("bytes, other"), std::string::npos) << refused.failure().message;
  EXPECT_EQ(*find_tokenizer(edge.engine, "other", ""), edge.engine.other.get());
  EXPECT_EQ(*find_tokenizer(edge.engine, "", "other"), edge.engine.other.get());
  EXPECT_EQ(*find_tokenizer(edge.engine, "", "default"), &edge.engine.bytes);
}

TEST(preparation, chat_needs_a_template) {
  scripted_edge edge;
  const auto* chat = R"({"messages":[{"role":"user","content":"x"}]})";
  EXPECT_TRUE(prepare_chat(edge.context, {}, chat));
  edge.engine.bytes.has_template = false;
  EXPECT_EQ(prepare_chat(edge.context, {}, chat).failure().code, "unsupported_parameter");
}

TEST(preparation, tools_are_refused_unless_none_is_chosen) {
  scripted_edge edge;
  edge.engine.bytes.takes_tools = true;
  const std::string tools = R"(,"tools":[{"type":"function","function":{"name":"f"}}])";
  const auto refused = [&](const std::string& members) {
    const auto chat =
        prepare_chat(edge.context, {}, R"({"messages":[{"role":"user","content":"x"}])" + members + "}");
    const auto response = prepare_response(
        edge.context, {}, *wire::parse_response_request("{\"input\":\"x\"" + members + "}", {}), {});
    EXPECT_EQ(bool(chat), bool(response)) << members;
    return chat ? "" : chat.failure().param;
  };
  EXPECT_EQ(refused(tools), "tools");
  EXPECT_EQ(refused(tools + R"(,"tool_choice":"auto")"), "tools");
  EXPECT_EQ(refused(tools + R"(,"tool_choice":"none")"), "");
  EXPECT_EQ(refused(R"(,"tools":[],"tool_choice":"auto")"), "");
}

TEST(preparation, tools_are_accepted_where_calls_can_be_read) {
  scripted_edge edge;
  edge.engine.bytes.takes_tools = true;
  edge.engine.bytes.format.calls = call_syntax::hermes;
  const auto prepared = [&](const std::string& members) {
    return prepare_chat(
        edge.context, {},
        R"({"messages":[{"role":"user","content":"x"}],"tools":[{"type":"function","function":{"name":"f"}}])" +
            members + "}");
  };
  const auto many = prepared("");
  ASSERT_TRUE(many) << many.failure().message;
  EXPECT_EQ(many->output.calls, call_syntax::hermes);
  EXPECT_TRUE(many->output.tools->has("f"));
  EXPECT_EQ(prepared(R"(,"parallel_tool_calls":false)")->output.max_calls, 1U);
  EXPECT_EQ(prepared(R"(,"tool_choice":"none")")->output.calls, call_syntax::none);
  const auto asked = prepared(R"(,"tool_choice":"required")");
  ASSERT_TRUE(asked) << asked.failure().message;
  EXPECT_EQ(edge.engine.bytes.compiled.back().what, grammar::grammar_source::kind::json_schema);
  EXPECT_EQ(edge.engine.bytes.compiled.back().text,
            R"({"anyOf":[{"type":"object","properties":{"name":{"const":"f"},"arguments":{"type":"object"}},)"
            R"("required":["name","arguments"],"additionalProperties":false}]})");
  EXPECT_EQ(asked->output.max_calls, 1U);
  const auto either = prepared(R"(,"response_format":{"type":"json_object"})");
  ASSERT_TRUE(either) << either.failure().message;
  EXPECT_EQ(either->output.calls, call_syntax::hermes) << "as a bare object";
  EXPECT_EQ(edge.engine.bytes.compiled.size(), 3U) << "a call, or the answer";
  EXPECT_EQ(prepared(R"(,"tool_choice":"required","min_tokens":3)").failure().param, "min_tokens");
  EXPECT_TRUE(prepared("")->sequences[0].skip_special_tokens);
  edge.engine.bytes.format.calls = call_syntax::mistral;
  EXPECT_FALSE(prepared("")->sequences[0].skip_special_tokens) << "its marker is a special token";
}

TEST(preparation, a_demanded_call_is_found_behind_thoughts_that_stay_in_the_text) {
  scripted_edge edge;
  auto& model = edge.engine.bytes;
  model.speak_hermes();
  const auto plan = [&](const std::string& members) {
    const auto made = prepare_chat(
        edge.context, {},
        R"({"messages":[{"role":"user","content":"x"}],"tools":[{"type":"function","function":{"name":"f"}}],)" +
            members + "}");
    return made->output;
  };
  for (const std::string demand :
       {R"("tool_choice":"required",)", R"("response_format":{"type":"json_object"},)"}) {
    const auto kept = plan(demand + R"("reasoning_format":"none")");
    EXPECT_TRUE(kept.reasoning && kept.keeps_reasoning_in_text) << demand;
    EXPECT_FALSE(plan(demand + R"("reasoning_format":"auto")").keeps_reasoning_in_text) << demand;
  }
  EXPECT_FALSE(plan(R"("reasoning_format":"none")").reasoning);
  model.format.calls = call_syntax::harmony;
  EXPECT_FALSE(plan(R"("tool_choice":"required","separate_reasoning":false)").reasoning);
}

TEST(preparation, the_arguments_of_a_continued_conversation_are_bounded) {
  scripted_edge edge;
  edge.engine.bytes.set_context_length(4096);
  const auto turns = [](std::size_t num_values) {
    std::string arguments = R"({"x":[1)";
    for (std::size_t i = 1; i < num_values; ++i) arguments += ",1";
    wire::chat_message turn;
    turn.role = "assistant";
    turn.tool_calls = {{"c", "f", arguments + "]}"}};
    return std::vector{turn, wire::chat_message{"user", "x", "", {}, ""}};
  };
  const auto prepared = [&](std::size_t num_values) {
    return prepare_response(edge.context, {}, *wire::parse_response_request(R"({"input":"x"})", {}),
                            turns(num_values));
  };
  EXPECT_TRUE(prepared(1000));
  EXPECT_EQ(prepared(wire::max_tree_values).failure().param, "previous_response_id");
  const auto counted = input_count_reply(edge.context, *wire::parse_response_request(R"({"input":"x"})", {}),
                                         turns(wire::max_tree_values));
  EXPECT_EQ(counted.failure().param, "previous_response_id");
}

TEST(preparation, the_text_has_marks_of_thoughts_that_are_special_tokens) {
  scripted_edge edge;
  auto& model = edge.engine.bytes;
  model.format.reasoning = wire::mistral_think_markers;
  const auto skips_special = [&](const std::string& members) {
    return prepare_chat(edge.context, {}, R"({"messages":[{"role":"user","content":"x"}])" + members + "}")
        ->sequences[0]
        .skip_special_tokens;
  };
  EXPECT_TRUE(skips_special("")) << "they are spelled by several tokens";
  model.marks = {"[/THINK]"};
  EXPECT_FALSE(skips_special(""));
  EXPECT_FALSE(skips_special(R"(,"reasoning_format":"none")"));
  model.format.reasoning = {};
  EXPECT_TRUE(skips_special(""));
}

TEST(preparation, a_prompt_that_opens_a_thought_is_seen) {
  scripted_edge edge;
  edge.engine.bytes.thinks.any = true;
  edge.engine.bytes.format.reasoning = wire::think_markers;
  const auto begins_inside = [&](const char* text) {
    const auto chat = prepare_chat(
        edge.context, {}, std::string(R"({"messages":[{"role":"user","content":")") + text + "\"}]}");
    return chat->output.begins_inside_reasoning;
  };
  EXPECT_TRUE(begins_inside("<think>"));
  EXPECT_FALSE(begins_inside("<think></think>"));
}

TEST(preparation, effort_is_what_the_template_makes_of_it) {
  scripted_edge edge;
  auto& model = edge.engine.bytes;
  const auto variables = [&](const std::string& members) -> std::string {
    const auto chat =
        prepare_chat(edge.context, {}, R"({"messages":[{"role":"user","content":"x"}],)" + members + "}");
    if (!chat) return chat.failure().param;
    return std::string(model.rendered.contains("enable_thinking")
                           ? model.rendered.at("enable_thinking").as_bool() ? "on" : "off"
                           : "") +
           (model.rendered.contains("reasoning_effort")
                ? std::string(model.rendered.at("reasoning_effort").as_string())
                : "");
  };
  const auto effort = [&](const std::string& level) {
    return variables("\"reasoning_effort\":\"" + level + "\"");
  };
  EXPECT_EQ(effort("high"), "") << "nothing to switch";
  model.thinks = {true, false, false};
  EXPECT_EQ(effort("medium"), "");
  EXPECT_EQ(effort("none"), "reasoning_effort") << "it reasons always";
  model.thinks = {true, true, false};
  EXPECT_EQ(effort("none"), "off");
  EXPECT_EQ(effort("low"), "on");
  EXPECT_EQ(variables(R"("enable_thinking":false)"), "off");
  EXPECT_EQ(variables(R"("enable_thinking":true,"chat_template_kwargs":{"enable_thinking":false})"), "off");
  EXPECT_EQ(variables(R"("reasoning_effort":"high","chat_template_kwargs":{"enable_thinking":false})"),
            "off");
  model.thinks = {true, false, true};
  EXPECT_EQ(effort("low"), "low");
  EXPECT_EQ(effort("none"), "reasoning_effort");
  EXPECT_EQ(variables(R"("chat_template_kwargs":{"reasoning_effort":"high"})"), "high");
  EXPECT_EQ(variables(R"("chat_template_kwargs":{"reasoning_effort":"max"})"),
            "chat_template_kwargs.reasoning_effort");

  const auto response = [&](const char* body) {
    return prepare_response(edge.context, {}, *wire::parse_response_request(body, {}), {});
  };
  EXPECT_TRUE(response(R"({"input":"x","reasoning":{"effort":"low","summary":"auto"}})"));
  EXPECT_EQ(model.rendered.at("reasoning_effort"), "low");
  EXPECT_EQ(response(R"({"input":"x","reasoning":{"effort":"minimal"}})").failure().param,
            "reasoning.effort");
  EXPECT_TRUE(response(R"({"input":"x","reasoning":{"effort":null}})"));
  EXPECT_EQ(prepare_message(edge.context, {},
                            R"({"max_tokens":4,"messages":[{"role":"user","content":"x"}],)"
                            R"("output_config":{"effort":"max"}})")
                .failure()
                .param,
            "output_config.effort");
}

TEST(preparation, chat_may_use_the_rest_of_the_context_and_completions_16_tokens) {
  scripted_edge edge;
  EXPECT_EQ(prepare_chat(edge.context, {}, R"({"messages":[{"role":"user","content":"x"}]})")
                ->sequences[0]
                .stop.max_tokens,
            64U - 7U);
  EXPECT_EQ(prepare_completion(edge.context, {}, R"({"prompt":"a"})")->sequences[0].stop.max_tokens, 16U);
}

TEST(preparation, a_deadline_shortens_the_configured_one) {
  scripted_edge edge;
  auto settings = *edge.settings.get();
  settings.request_timeout = std::chrono::seconds(30);
  edge.settings.set(std::move(settings));
  const auto time = [&](const std::string& members) {
    return prepare_completion(edge.context, {}, R"({"prompt":"a")" + members + "}")->sequences[0].timeout;
  };
  EXPECT_EQ(time(""), std::chrono::seconds(30));
  EXPECT_EQ(time(R"(,"deadline_ms":250)"), std::chrono::milliseconds(250));
  EXPECT_EQ(time(R"(,"deadline_ms":31000)"), std::chrono::seconds(30));
}

TEST(preparation, keys_do_not_share_prefixes) {
  scripted_edge edge;
  const auto salt = [&](const char* tenant, const char* body) {
    return prepare_completion(edge.context, {tenant, ""}, body)->sequences[0].cache_salt;
  };
  const auto* plain = R"({"prompt":"a"})";
  const auto* salted = R"({"prompt":"a","cache_salt":"s"})";
  EXPECT_EQ(salt("", plain), "");
  EXPECT_NE(salt("k1", plain), salt("k2", plain));
  EXPECT_NE(salt("k1", plain), salt("k1", salted));
}

TEST(preparation, keys_salts_and_users_are_tenants_of_their_own) {
  scripted_edge edge;
  const auto tenant = [&](const char* key, const std::string& members) {
    return prepare_completion(edge.context, {key, ""}, R"({"prompt":"a")" + members + "}")
        ->sequences[0]
        .tenant;
  };
  std::set<std::string> all;
  for (const char* key : {"", "k1", "k2"})
    for (const char* members : {"", R"(,"user":"u")", R"(,"user":"uk1/")", R"(,"user":"v")",
                                R"(,"cache_salt":"u")", R"(,"user":"u","cache_salt":"u")"})
      EXPECT_TRUE(all.insert(tenant(key, members)).second) << key << members;
  EXPECT_EQ(tenant("k1", R"(,"user":"u")"), tenant("k1", R"(,"user":"u")"));
}

TEST(preparation, a_key_is_one_owner_whatever_users_and_salts_its_requests_name) {
  scripted_edge edge;
  for (const char* members : {"", R"(,"user":"u")", R"(,"cache_salt":"s")"}) {
    SCOPED_TRACE(members);
    const auto body = [&](const char* begin) { return std::string(begin).append(members).append("}"); };
    const caller who{"k1", ""};
    const auto completion = prepare_completion(edge.context, who, body(R"({"prompt":"a","n":2)"));
    ASSERT_TRUE(completion);
    for (const auto& one : completion->sequences) EXPECT_EQ(one.owner, "k1");
    const auto chat = body(R"({"messages":[{"role":"user","content":"a"}])");
    EXPECT_EQ(prepare_chat(edge.context, who, chat)->sequences[0].owner, "k1");
    auto response = wire::parse_response_request(body(R"({"input":"a")"), {});
    EXPECT_EQ(prepare_response(edge.context, who, *std::move(response), {})->sequence.owner, "k1");
    EXPECT_EQ(prepare_completion(edge.context, {}, body(R"({"prompt":"a")"))->sequences[0].owner, "");
  }
}

TEST(preparation, a_prediction_becomes_tokens_without_any_around_them) {
  scripted_edge edge;
  const auto* const prediction = R"("prediction":{"type":"content","content":"abc"}})";
  const std::vector<token_id> abc{token_id{97}, token_id{98}, token_id{99}};
  const auto completion =
      prepare_completion(edge.context, {}, std::string(R"({"prompt":"a","n":2,)").append(prediction));
  ASSERT_TRUE(completion);
  EXPECT_EQ(completion->sequences[0].prediction, abc);
  EXPECT_EQ(completion->sequences[1].prediction, abc);
  const auto chat = prepare_chat(
      edge.context, {}, std::string(R"({"messages":[{"role":"user","content":"x"}],)").append(prediction));
  ASSERT_TRUE(chat);
  EXPECT_EQ(chat->sequences[0].prediction, abc);
  auto response = wire::parse_response_request(std::string(R"({"input":"x",)").append(prediction), {});
  EXPECT_EQ(prepare_response(edge.context, {}, *std::move(response), {})->sequence.prediction, abc);
}

TEST(preparation, seeds_differ_unless_given) {
  scripted_edge edge;
  const auto seed = [&] {
    return prepare_completion(edge.context, {}, R"({"prompt":"a"})")->sequences[0].sampling.seed;
  };
  EXPECT_NE(seed(), seed());
}

TEST(preparation, warming_up_asks_for_one_plain_token) {
  scripted_edge edge;
  auto request = wire::parse_response_request(R"({"input":"x","generate":false})", {});
  const auto prepared = prepare_response(edge.context, {}, *std::move(request), {});
  ASSERT_TRUE(prepared);
  EXPECT_EQ(prepared->sequence.stop.max_tokens, 1U);
  EXPECT_EQ(prepared->sequence.speculation.drafter, "none");
}

TEST(preparation, a_priority_beyond_the_key_s_right_is_refused) {
  scripted_edge edge;
  caller limited{"tenant", "req", -5};
  const auto status = [&](const caller& who, int priority) {
    const auto field = ",\"priority\":" + std::to_string(priority) + "}";
    const auto completion = prepare_completion(edge.context, who, "{\"prompt\":\"x\"" + field);
    const auto chat =
        prepare_chat(edge.context, who, "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]" + field);
    const auto response = prepare_response(edge.context, who,
                                           *wire::parse_response_request("{\"input\":\"x\"" + field, {}), {});
    EXPECT_EQ(bool(completion), bool(chat));
    EXPECT_EQ(bool(completion), bool(response));
    return completion ? 200 : completion.failure().status;
  };
  EXPECT_EQ(status(limited, -5), 200);
  EXPECT_EQ(status(limited, 7), 200);
  EXPECT_EQ(status(limited, -6), 403);
  EXPECT_EQ(status({}, -2000000000), 200) << "without keys it is open";
}

} // namespace
} // namespace paceline::server
