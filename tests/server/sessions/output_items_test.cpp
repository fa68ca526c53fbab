// Thoughts and calls of functions, from the engine's text to the replies of both API families.
#include "server/sessions/completion_session.hpp"
#include "server/sessions/response_exchange.hpp"

#include "conversation.hpp"

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <gtest/gtest.h>

#include <map>

namespace paceline::server::output_items_test {
namespace {

namespace json = boost::json;

constexpr const char* tools =
    R"(,"tools":[{"type":"function","function":{"name":"weather","parameters":{"type":"object"}}}])";

std::string messages(const std::string& members) {
  return R"({"messages":[{"role":"user","content":"x"}])" + members + "}";
}

struct reading_chat : conversation {
  reading_chat() { edge.engine.bytes.speak_hermes(); }

  /// What a client joins from the deltas of a stream, and the reason of the end.
  std::string joined() const {
    std::string reasoning, content, calls, finish;
    for (const auto& data : channel->data()) {
      if (data == "[DONE]") continue;
      const auto chunk = json::parse(data);
      const auto& choice = chunk.at("choices").at(0);
      const auto& delta = choice.at("delta").as_object();
      if (delta.contains("reasoning_content")) reasoning += delta.at("reasoning_content").as_string();
      if (delta.contains("content")) content += delta.at("content").as_string();
      if (delta.contains("tool_calls"))
        for (const auto& call : delta.at("tool_calls").as_array()) {
          const auto& function = call.at("function").as_object();
          if (function.contains("name")) {
            EXPECT_EQ(call.at("id").as_string().find("call_"), 0U);
            calls += std::string(function.at("name").as_string()) + "#" + json::serialize(call.at("index"));
          }
          calls += function.at("arguments").as_string();
        }
      if (choice.at("finish_reason").is_string()) finish = choice.at("finish_reason").as_string();
    }
    return reasoning + "|" + content + "|" + calls + "|" + finish;
  }
};

constexpr const char* output =
    "<think>\nhm\n</think>\n\nLook:\n<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Ulm\"}}\n</tool_call>";

TEST(output_items, a_whole_chat_has_thoughts_answer_and_calls) {
  reading_chat c;
  c.chat(messages(tools));
  c.tokens(output);
  c.end(finish_reason::stop);
  const auto choice = c.reply().at("choices").at(0).as_object();
  const auto& message = choice.at("message").as_object();
  EXPECT_EQ(message.at("reasoning_content"), "hm");
  EXPECT_EQ(message.at("content"), "Look:");
  const auto& call = message.at("tool_calls").at(0);
  EXPECT_EQ(call.at("type"), "function");
  EXPECT_EQ(call.at("function").at("name"), "weather");
  EXPECT_EQ(call.at("function").at("arguments"), R"({"city": "Ulm"})");
  EXPECT_EQ(choice.at("finish_reason"), "tool_calls");
  // Tokens are bytes here: <think> to </think>.
  EXPECT_EQ(c.reply().at("usage").at("completion_tokens_details").at("reasoning_tokens").as_int64(), 19);
}

TEST(output_items, a_chat_without_text_has_null_content) {
  reading_chat c;
  c.chat(messages(tools));
  c.tokens(R"(<tool_call>{"name":"weather"}</tool_call>)");
  c.end(finish_reason::stop);
  const auto message = c.reply().at("choices").at(0).at("message").as_object();
  EXPECT_TRUE(message.at("content").is_null());
  EXPECT_FALSE(message.contains("reasoning_content"));
}

TEST(output_items, a_streamed_chat_says_the_same_however_the_text_is_divided) {
  for (const std::size_t size : {1U, 5U, 1000U}) {
    reading_chat c;
    c.chat(messages(std::string(tools) + R"(,"stream":true)"));
    const std::string text = output;
    for (std::size_t at = 0; at < text.size(); at += size) c.tokens(text.substr(at, size));
    c.end(finish_reason::stop);
    EXPECT_EQ(c.joined(), R"(hm|Look:|weather#0{"city": "Ulm"}|tool_calls)") << size;
  }
}

TEST(output_items, a_call_that_the_token_limit_cuts_ends_with_length) {
  reading_chat c;
  c.chat(messages(std::string(tools) + R"(,"stream":true)"));
  c.tokens(R"(<tool_call>{"name":"weather","arguments":{"ci)");
  c.end(finish_reason::length);
  EXPECT_EQ(c.joined(), R"(||weather#0{"ci|length)");
}

TEST(output_items, options_for_thoughts_decide_whether_they_are_told_apart) {
  const auto joined = [](const std::string& members) {
    reading_chat c;
    c.chat(messages(R"(,"stream":true)" + members));
    c.tokens("<think>a</think>b");
    c.end(finish_reason::stop);
    return c.joined();
  };
  EXPECT_EQ(joined(""), "a|b||stop");
  EXPECT_EQ(joined(R"(,"include_reasoning":false)"), "|b||stop");
  EXPECT_EQ(joined(R"(,"reasoning_format":"none")"), "|<think>a</think>b||stop");
  EXPECT_EQ(joined(R"(,"separate_reasoning":false)"), "|<think>a</think>b||stop");
}

TEST(output_items, a_demanded_call_follows_thoughts_that_stay_in_the_text) {
  reading_chat c;
  c.chat(
      messages(std::string(tools) + R"(,"tool_choice":"required","reasoning_format":"none","stream":true)"));
  c.tokens("<think>\nhm\n</think>\n\n{\"name\": \"weather\", \"arguments\": {}}");
  c.end(finish_reason::stop);
  EXPECT_EQ(c.joined(), "|<think>\nhm\n</think>|weather#0{}|tool_calls");
}

TEST(output_items, a_call_may_come_without_the_end_of_thoughts) {
  reading_chat c;
  c.chat(messages(tools));
  c.tokens("<think>\nhm\n<tool_call>\n{\"name\": \"weather\", \"arguments\": {}}\n</tool_call>");
  c.end(finish_reason::stop);
  const auto choice = c.reply().at("choices").at(0).as_object();
  EXPECT_EQ(choice.at("message").at("reasoning_content"), "hm");
  EXPECT_EQ(choice.at("message").at("tool_calls").at(0).at("function").at("name"), "weather");
  EXPECT_EQ(choice.at("finish_reason"), "tool_calls");
}

TEST(output_items, without_tools_a_call_is_text) {
  reading_chat c;
  const std::string call = R"(<tool_call>{"name":"weather"}</tool_call>)";
  c.chat(messages(""));
  c.tokens(call);
  c.end(finish_reason::stop);
  EXPECT_EQ(c.reply().at("choices").at(0).at("message").at("content").as_string(), call);
}

struct reading_response {
  scripted_edge edge;
  response_registry registry{1, std::chrono::seconds(60)};
  response_services services{edge.context, registry, [this] { return edge.executor; }};
  std::shared_ptr<recording_channel> channel = std::make_shared<recording_channel>();
  std::shared_ptr<response_exchange> exchange =
      std::make_shared<response_exchange>(services, edge.executor, channel, caller{"", "req"});

  explicit reading_response(const std::string& members, std::string_view text = output) {
    edge.engine.bytes.speak_hermes();
    auto request = wire::parse_response_request(
        R"({"input":"x","tools":[{"type":"function","name":"weather"}])" + members + "}", {});
    exchange->start(prepare_response(edge.context, {}, *std::move(request), {}));
    edge.executor->run();
    for (std::size_t at = 0; at < text.size(); at += 6) {
      edge.engine.tokens(1, text.substr(at, 6));
      edge.executor->run();
    }
    edge.engine.end(1, finish_reason::stop);
    edge.executor->run();
  }
  json::array events() const {
    json::array all;
    for (const auto& data : channel->data())
      if (data != "[DONE]") all.push_back(json::parse(data));
    return all;
  }
};

TEST(output_items, a_response_has_an_item_for_each) {
  const reading_response r("");
  const auto object = json::parse(r.channel->replied.value().body).as_object();
  const auto& items = object.at("output").as_array();
  ASSERT_EQ(items.size(), 3U);
  EXPECT_EQ(items[0].at("type"), "reasoning");
  EXPECT_EQ(items[0].at("content").at(0).at("text"), "hm");
  EXPECT_EQ(items[1].at("content").at(0).at("text"), "Look:");
  EXPECT_EQ(items[2].at("type"), "function_call");
  EXPECT_EQ(items[2].at("name"), "weather");
  EXPECT_EQ(items[2].at("arguments"), R"({"city": "Ulm"})");
  EXPECT_EQ(items[2].at("call_id").as_string().find("call_"), 0U);
  EXPECT_EQ(object.at("tools").at(0).at("name"), "weather");
  EXPECT_EQ(object.at("usage").at("output_tokens_details").at("reasoning_tokens").as_int64(), 19);
}

TEST(output_items, a_streamed_response_tells_each_item_from_begin_to_end) {
  const reading_response r(R"(,"stream":true)");
  std::string order;
  std::map<std::string, std::string> deltas;
  const auto events = r.events();
  for (std::size_t i = 0; i < events.size(); ++i) {
    const auto& event = events[i].as_object();
    EXPECT_EQ(event.at("sequence_number").to_number<std::size_t>(), i);
    const std::string type(event.at("type").as_string());
    if (event.contains("delta")) deltas[type] += event.at("delta").as_string();
    if (!event.contains("delta")) order += type.substr(type.find('.') + 1) + "\n";
  }
  EXPECT_EQ(
      order,
      "created\nin_progress\n"
      "output_item.added\ncontent_part.added\nreasoning_text.done\ncontent_part.done\noutput_item.done\n"
      "output_item.added\ncontent_part.added\noutput_text.done\ncontent_part.done\noutput_item.done\n"
      "output_item.added\nfunction_call_arguments.done\noutput_item.done\n"
      "completed\n");
  EXPECT_EQ(deltas["response.reasoning_text.delta"], "hm");
  EXPECT_EQ(deltas["response.output_text.delta"], "Look:");
  EXPECT_EQ(deltas["response.function_call_arguments.delta"], R"({"city": "Ulm"})");
}

TEST(output_items, every_token_of_a_response_has_its_position_told_once) {
  const reading_response r(R"(,"stream":true,"paceline":{"token_ids":true})");
  std::int64_t next = 0;
  for (const auto& event : r.events()) {
    if (!event.as_object().contains("token_index")) continue;
    EXPECT_EQ(event.at("token_index").as_int64(), next);
    next += static_cast<std::int64_t>(event.at("token_ids").as_array().size());
  }
  EXPECT_GT(next, 60);
}

TEST(output_items, a_response_without_output_has_an_empty_message) {
  const reading_response r("", "");
  const auto object = json::parse(r.channel->replied.value().body);
  EXPECT_EQ(object.at("output").at(0).at("content").at(0).at("text"), "");
}

TEST(output_items, a_response_that_generates_nothing_has_no_thoughts) {
  const reading_response r(R"(,"generate":false)", "<think>");
  const auto details = json::parse(r.channel->replied.value().body).at("usage").as_object();
  EXPECT_EQ(details.at("output_tokens"), 0);
  EXPECT_EQ(details.at("output_tokens_details").at("reasoning_tokens"), 0);
}

TEST(output_items, scores_of_a_response_are_those_of_the_answer) {
  const auto num_scores = [](const char* text) {
    scripted_edge edge;
    edge.engine.bytes.speak_hermes();
    wire::output_plan plan;
    plan.reasoning = wire::think_markers;
    choice_reader reader(plan, edge.engine.bytes, true);
    std::size_t count = 0;
    for (const char* c = text; *c != 0; ++c) {
      token_event event;
      event.text = std::string(1, *c);
      event.tokens = {token_id{*c}};
      reader.read(event);
      count += reader.scores_of_answer({{token_id{*c}, -1, {}}}).size();
    }
    return count;
  };
  EXPECT_EQ(num_scores("<think>a</think>bc"), 2U);
  EXPECT_EQ(num_scores("abc"), 3U);
  EXPECT_EQ(num_scores("<thing"), 6U) << "what waited is returned when it is known";
}

} // namespace
} // namespace paceline::server::output_items_test
