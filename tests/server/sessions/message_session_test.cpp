#include "server/sessions/message_session.hpp"

#include "scripted_backend.hpp"

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <gtest/gtest.h>

namespace paceline::server {
namespace {

namespace json = boost::json;

struct message {
  scripted_edge edge;
  std::shared_ptr<recording_channel> channel = std::make_shared<recording_channel>();
  std::shared_ptr<message_session> session =
      std::make_shared<message_session>(edge.context, edge.executor, channel, caller{"", "req"});

  message() { edge.engine.bytes.speak_hermes(); }
  void start(const std::string& members = "") {
    session->start(prepare_message(
        edge.context, {}, R"({"max_tokens":50,"messages":[{"role":"user","content":"x"}])" + members + "}"));
  }
  void tokens(std::string_view text) {
    edge.engine.tokens(1, text);
    edge.executor->run();
  }
  void end(finish_reason finish, std::string_view text = "") {
    edge.engine.end(1, finish, text);
    edge.executor->run();
  }
  json::object reply() const { return json::parse(channel->replied.value().body).as_object(); }
  std::vector<std::string> types() const {
    std::vector<std::string> out;
    for (const auto& data : channel->data()) out.emplace_back(json::parse(data).at("type").as_string());
    return out;
  }
};

constexpr const char* output =
    "<think>\nhm\n</think>\n\nLet me see.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\": 1}}\n</tool_call>";
constexpr const char* tools = R"(,"tools":[{"name":"f","input_schema":{"type":"object"}}])";

TEST(message_session, answers_whole) {
  message m;
  m.start(tools + std::string(R"(,"odd":1)"));
  for (const char* c = output; *c != '\0'; ++c) m.tokens(std::string_view(c, 1));
  m.end(finish_reason::stop);
  const auto reply = m.reply();
  EXPECT_EQ(reply.at("id").as_string().find("msg_"), 0U);
  EXPECT_EQ(reply.at("model"), "bytes");
  const auto& content = reply.at("content").as_array();
  ASSERT_EQ(content.size(), 3U);
  EXPECT_EQ(content[0].at("thinking"), "hm");
  EXPECT_EQ(content[1].at("text"), "Let me see.");
  EXPECT_EQ(content[2].at("input"), (json::object{{"x", 1}}));
  EXPECT_EQ(reply.at("stop_reason"), "tool_use");
  const auto& usage = reply.at("usage");
  const auto num_prompt = m.edge.engine.submissions.at(1).request.prompt.size();
  EXPECT_EQ(usage.at("cache_read_input_tokens"), 2);
  EXPECT_EQ(usage.at("input_tokens").to_number<std::size_t>(), num_prompt - 2);
  EXPECT_EQ(usage.at("output_tokens").to_number<std::size_t>(), std::string_view(output).size());
  EXPECT_GT(usage.at("output_tokens_details").at("thinking_tokens").to_number<int>(), 2);
  EXPECT_EQ(header_of(m.channel->replied->headers, "x-paceline-ignored-fields"), "odd");
  EXPECT_EQ(header_of(m.channel->replied->headers, "x-request-id"), "req");
}

TEST(message_session, streams_the_same_blocks) {
  message m;
  m.start(tools + std::string(R"(,"stream":true)"));
  for (const char* c = output; *c != '\0'; ++c) m.tokens(std::string_view(c, 1));
  m.end(finish_reason::stop);
  std::string told;
  for (const auto& data : m.channel->data()) {
    const auto event = json::parse(data).as_object();
    if (event.at("type") == "content_block_start")
      told += "[" + std::string(event.at("content_block").at("type").as_string()) + ":";
    if (event.at("type") == "content_block_stop") told += "]";
    if (event.at("type") == "message_delta") told += event.at("delta").at("stop_reason").as_string();
    if (event.at("type") == "content_block_delta")
      for (const auto& member : event.at("delta").as_object())
        if (member.key() != "type") told += member.value().as_string();
  }
  EXPECT_EQ(told, "[thinking:hm][text:Let me see.][tool_use:{\"x\": 1}]tool_use");
  EXPECT_EQ(m.types().front(), "message_start");
  EXPECT_EQ(m.types().back(), "message_stop");
  EXPECT_NE(m.channel->bytes.find("event: message_start\ndata: {\"type\":\"message_start\""),
            std::string::npos);
  EXPECT_TRUE(m.channel->finished);
}

TEST(message_session, tells_which_sequence_stopped_it) {
  for (const auto& [found, reason] :
       {std::pair(" END", R"("stop_sequence"" END")"), std::pair("", R"("end_turn"null)")}) {
    message m;
    m.start(R"(,"stop_sequences":["no"," END"])");
    m.tokens("ab");
    token_event event; // of a vocabulary whose token 'E' is " E" within a text
    for (const char c : std::string_view("END")) event.tokens.emplace_back(static_cast<unsigned char>(c));
    event.finish = finish_reason::stop;
    event.stop_string = found;
    m.edge.engine.submissions.at(1).sink(event);
    m.edge.executor->run();
    const auto reply = m.reply();
    EXPECT_EQ(json::serialize(reply.at("stop_reason")) + json::serialize(reply.at("stop_sequence")), reason);
    EXPECT_EQ(reply.at("content").at(0).at("text"), "ab");
  }
}

TEST(message_session, refuses_before_the_first_token_and_fails_within_the_stream) {
  message refused;
  refused.start(R"(,"temperature":2)");
  EXPECT_EQ(refused.channel->replied.value().status, 400);
  EXPECT_EQ(refused.reply().at("error").at("type"), "invalid_request_error");
  message early;
  early.start(R"(,"stream":true)");
  early.edge.engine.fail(1, errc::queue_full);
  early.edge.executor->run();
  EXPECT_EQ(early.channel->replied.value().status, 429);
  EXPECT_EQ(early.reply().at("error").at("type"), "rate_limit_error");
  EXPECT_NE(header_of(early.channel->replied->headers, "Retry-After"), "");
  message late;
  late.start(R"(,"stream":true)");
  late.tokens("a");
  late.edge.engine.fail(1, errc::internal);
  late.edge.executor->run();
  EXPECT_EQ(late.types().back(), "error");
  EXPECT_TRUE(late.channel->finished);
}

TEST(message_session, pings_while_nothing_is_said) {
  message m;
  m.start(R"(,"stream":true)");
  m.edge.executor->run();
  m.session->on_idle();
  EXPECT_EQ(m.types(), (std::vector<std::string>{"message_start", "ping"}));
  message whole;
  whole.start();
  whole.edge.executor->run();
  whole.session->on_idle();
  EXPECT_FALSE(whole.channel->streaming);
}

TEST(message_session, a_stream_waits_for_its_reader) {
  message m;
  m.start(R"(,"stream":true)");
  m.edge.executor->run();
  EXPECT_TRUE(m.edge.engine.submissions.at(1).paced);
  const auto before = m.edge.engine.submissions.at(1).credit;
  m.channel->full = true;
  m.tokens("abc");
  EXPECT_EQ(m.edge.engine.submissions.at(1).credit, before);
  m.channel->full = false;
  m.session->on_writable();
  EXPECT_EQ(m.edge.engine.submissions.at(1).credit, before + 3);
}

TEST(message_session, a_client_that_leaves_frees_its_generation) {
  message m;
  m.start(R"(,"stream":true)");
  m.tokens("a");
  m.session->on_disconnect();
  EXPECT_TRUE(m.edge.engine.submissions.at(1).cancelled);
  EXPECT_EQ(m.edge.metrics.disconnect_cancels, 1U);
  m.end(finish_reason::cancelled);
  EXPECT_FALSE(m.channel->finished);
}

TEST(message_session, a_shutdown_is_an_error) {
  message streamed;
  streamed.start(R"(,"stream":true)");
  streamed.tokens("a");
  streamed.session->on_shutdown();
  EXPECT_EQ(json::parse(streamed.channel->data().back()).at("error").at("type"), "overloaded_error");
  message whole;
  whole.start();
  whole.session->on_shutdown();
  EXPECT_EQ(whole.channel->replied.value().status, 503);
}

} // namespace
} // namespace paceline::server
