// Replies that end with a call: behind the last one that is allowed, or within it.
#include "server/sessions/message_session.hpp"
#include "server/sessions/response_exchange.hpp"

#include "conversation.hpp"

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace paceline::server::call_endings_test {
namespace {

namespace json = boost::json;

constexpr std::string_view call = R"(<tool_call>{"name":"f","arguments":{"x":1}})";
constexpr std::string_view one_call = R"(,"parallel_tool_calls":false)";

/// A request of one kind, from its body to the end of its reply.
template <class Session>
struct asked {
  scripted_edge edge;
  response_registry registry{1, std::chrono::seconds(60)};
  response_services services{edge.context, registry, [this] { return edge.executor; }};
  std::shared_ptr<recording_channel> channel = std::make_shared<recording_channel>();
  std::shared_ptr<Session> session;

  template <class Start>
  explicit asked(Start start) {
    edge.engine.bytes.speak_hermes();
    if constexpr (std::is_same_v<Session, response_exchange>)
      session = std::make_shared<Session>(services, edge.executor, channel, caller{"", "req"});
    else
      session = std::make_shared<Session>(edge.context, edge.executor, channel, caller{"", "req"});
    start(*this);
    edge.executor->run();
  }
  scripted_backend::submission& submitted() { return edge.engine.submissions.at(1); }
  void tokens(std::string_view text) {
    edge.engine.tokens(1, text);
    edge.executor->run();
  }
  void end(finish_reason finish, std::string_view text = "") {
    edge.engine.end(1, finish, text);
    edge.executor->run();
  }
  /// Stops at a stop string behind `text`.
  void stop(std::string_view text) {
    token_event event;
    event.text = text;
    event.finish = finish_reason::stop;
    event.stop_string = "END";
    submitted().sink(event);
    edge.executor->run();
  }
  json::object reply() const { return json::parse(channel->replied.value().body).as_object(); }
};

std::string body_of(std::string_view members) {
  return R"({"messages":[{"role":"user","content":"x"}],)"
         R"("tools":[{"type":"function","function":{"name":"f"}}])" +
         std::string(members) + "}";
}

asked<completion_session> chat(std::string_view members) {
  return asked<completion_session>(
      [&](auto& a) { a.session->start(prepare_chat(a.edge.context, {}, body_of(members))); });
}

asked<message_session> message(std::string_view members) {
  const auto body = R"({"max_tokens":200,"messages":[{"role":"user","content":"x"}],)"
                    R"("tools":[{"name":"f","input_schema":{}}])" +
                    std::string(members) + "}";
  return asked<message_session>(
      [&](auto& a) { a.session->start(prepare_message(a.edge.context, {}, body)); });
}

asked<response_exchange> response(std::string_view members) {
  const auto body = R"({"input":"x","tools":[{"type":"function","name":"f"}])" + std::string(members) + "}";
  return asked<response_exchange>([&](auto& a) {
    a.session->start(prepare_response(a.edge.context, {}, *wire::parse_response_request(body, {}), {}));
  });
}

constexpr std::string_view one_use = R"(,"tool_choice":{"type":"auto","disable_parallel_tool_use":true})";

/// The model goes on behind its only call until it is stopped.
template <class Session>
void say_too_much(asked<Session>& a) {
  a.tokens("Hm.");
  a.tokens(call);
  EXPECT_TRUE(a.submitted().cancelled);
  a.tokens("</tool_call> and so on"); // on its way already
  a.end(finish_reason::cancelled);
}

TEST(call_endings, a_chat_ends_behind_the_only_call_that_is_allowed) {
  auto a = chat(one_call);
  say_too_much(a);
  const auto reply = a.reply();
  const auto& choice = reply.at("choices").at(0);
  EXPECT_EQ(choice.at("finish_reason"), "tool_calls");
  EXPECT_EQ(choice.at("message").at("content"), "Hm.");
  EXPECT_EQ(choice.at("message").at("tool_calls").as_array().size(), 1U);
  const auto& usage = reply.at("usage");
  EXPECT_EQ(usage.at("completion_tokens").to_number<std::size_t>(), 3 + call.size()) << "nothing behind it";
  EXPECT_EQ(usage.at("prompt_tokens_details").at("cached_tokens"), 2) << "a cancelled request tells none";
  EXPECT_EQ(reply.at("metrics").at("generation_time_ms"), 30.0);
  EXPECT_EQ(reply.at("metrics").at("speculative_decoding").at("num_draft_tokens"), 8);
  EXPECT_EQ(a.edge.metrics.open_requests, 0U);
}

TEST(call_endings, a_streamed_chat_ends_there_too) {
  auto a = chat(std::string(one_call) + R"(,"stream":true,"stream_options":{"include_usage":true})");
  say_too_much(a);
  const auto data = a.channel->data();
  ASSERT_GT(data.size(), 3U);
  EXPECT_EQ(data.back(), "[DONE]");
  EXPECT_EQ(json::parse(data[data.size() - 3]).at("choices").at(0).at("finish_reason"), "tool_calls");
  EXPECT_EQ(json::parse(data[data.size() - 2]).at("usage").at("completion_tokens").to_number<std::size_t>(),
            3 + call.size());
}

TEST(call_endings, a_message_ends_there_too) {
  auto a = message(one_use);
  say_too_much(a);
  EXPECT_EQ(a.reply().at("stop_reason"), "tool_use");
  EXPECT_EQ(a.reply().at("usage").at("cache_read_input_tokens"), 2);
  EXPECT_EQ(a.reply().at("content").as_array().size(), 2U);
}

TEST(call_endings, a_response_ends_there_too) {
  auto a = response(one_call);
  say_too_much(a);
  EXPECT_EQ(a.reply().at("status"), "completed");
  EXPECT_EQ(a.reply().at("output").at(1).at("status"), "completed");
  EXPECT_EQ(a.reply().at("usage").at("input_tokens_details").at("cached_tokens"), 2);
}

TEST(call_endings, a_token_limit_behind_the_last_call_cuts_nothing) {
  const auto text = std::string(call) + "</tool_call> and";
  auto chatting = chat(one_call);
  chatting.end(finish_reason::length, text);
  EXPECT_EQ(chatting.reply().at("choices").at(0).at("finish_reason"), "tool_calls");
  auto streaming = chat(std::string(one_call) + R"(,"stream":true)");
  streaming.end(finish_reason::length, text);
  EXPECT_NE(streaming.channel->bytes.find(R"("finish_reason":"tool_calls")"), std::string::npos);
  auto telling = message(one_use);
  telling.end(finish_reason::length, text);
  EXPECT_EQ(telling.reply().at("stop_reason"), "tool_use");
  auto responding = response(one_call);
  responding.end(finish_reason::length, text);
  EXPECT_EQ(responding.reply().at("status"), "completed");
  auto several = chat("");
  several.end(finish_reason::length, text);
  EXPECT_EQ(several.reply().at("choices").at(0).at("finish_reason"), "length") << "more was to come";
}

TEST(call_endings, a_token_limit_within_the_last_call_cuts_it) {
  auto a = chat(one_call);
  a.end(finish_reason::length, call.substr(0, call.size() - 1));
  EXPECT_EQ(a.reply().at("choices").at(0).at("finish_reason"), "length");
  auto before_arguments = chat(one_call);
  before_arguments.end(finish_reason::length, R"(<tool_call>{"name":"f")");
  EXPECT_EQ(before_arguments.reply().at("choices").at(0).at("finish_reason"), "length");
}

TEST(call_endings, a_further_call_that_has_begun_changes_nothing) {
  constexpr std::string_view calls = R"([TOOL_CALLS][{"name":"f","arguments":{}}, {"name":"f","argu)";
  const auto mistral = [&](std::string_view members) {
    return asked<completion_session>([&](auto& a) {
      a.edge.engine.bytes.format.calls = call_syntax::mistral;
      a.session->start(prepare_chat(a.edge.context, {}, body_of(members)));
    });
  };
  auto stopped = mistral(one_call);
  stopped.tokens(calls);
  EXPECT_TRUE(stopped.submitted().cancelled);
  auto limited = mistral(one_call);
  limited.end(finish_reason::length, calls);
  EXPECT_EQ(limited.reply().at("choices").at(0).at("finish_reason"), "tool_calls");
}

TEST(call_endings, only_what_may_go_on_is_stopped) {
  auto several = chat("");
  several.tokens(call);
  EXPECT_FALSE(several.submitted().cancelled);
  EXPECT_TRUE(several.submitted().request.stats_in_events) << "after the 128th call it is";
  auto demanded = chat(R"(,"tool_choice":"required")");
  demanded.tokens(R"({"name":"f","arguments":{}})");
  EXPECT_FALSE(demanded.submitted().cancelled) << "the constraint ends it";
  EXPECT_FALSE(demanded.submitted().request.stats_in_events);
  conversation plain;
  plain.complete(R"({"prompt":"x"})");
  EXPECT_FALSE(plain.submitted().request.stats_in_events);
}

TEST(call_endings, a_call_that_is_cut_is_an_incomplete_item) {
  for (const bool limited : {true, false}) {
    auto a = response("");
    const auto text = R"(Hm. <tool_call>{"name":"f","arguments":{"x)";
    limited ? a.end(finish_reason::length, text) : a.stop(text);
    EXPECT_EQ(a.reply().at("status"), limited ? "incomplete" : "completed");
    EXPECT_EQ(a.reply().at("output").at(0).at("status"), "completed");
    EXPECT_EQ(a.reply().at("output").at(1).at("status"), "incomplete");
    EXPECT_EQ(a.reply().at("output").at(1).at("arguments"), R"({"x)");
  }
}

TEST(call_endings, a_stop_string_gives_a_call_no_arguments) {
  auto a = chat("");
  a.stop(R"(<tool_call>{"name":"f")");
  EXPECT_EQ(a.reply().at("choices").at(0).at("message").at("tool_calls").at(0).at("function").at("arguments"),
            "");
}

/// The tokens of all scores, and the number of deltas without text.
std::pair<std::string, int> scored(asked<response_exchange>& a) {
  std::string tokens;
  int num_empty = 0;
  for (const auto& data : a.channel->data()) {
    if (data == "[DONE]") continue;
    const auto event = json::parse(data).as_object();
    if (event.at("type") != "response.output_text.delta") continue;
    num_empty += event.at("delta") == "" ? 1 : 0;
    for (const auto& score : event.at("logprobs").as_array()) tokens += score.at("token").as_string();
  }
  return {tokens, num_empty};
}

TEST(call_endings, scores_of_a_response_leave_out_its_calls) {
  const auto text = "<think>hm</think>Look:\n" + std::string(call) + "</tool_call>\nDone.";
  for (const std::size_t size : {1U, 4U, 1000U}) {
    auto a = response(R"(,"stream":true,"include":["message.output_text.logprobs"])");
    for (std::size_t at = 0; at < text.size(); at += size) a.tokens(std::string_view(text).substr(at, size));
    a.end(finish_reason::stop);
    EXPECT_EQ(scored(a), (std::pair<std::string, int>{"Look:Done.", 0})) << size;
  }
}

} // namespace
} // namespace paceline::server::call_endings_test
