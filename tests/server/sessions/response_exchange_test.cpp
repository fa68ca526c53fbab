#include "server/sessions/response_exchange.hpp"

#include "scripted_backend.hpp"

#include <boost/json/parse.hpp>
#include <gtest/gtest.h>

namespace paceline::server {
namespace {

namespace json = boost::json;

struct post {
  scripted_edge edge;
  response_registry registry{1, std::chrono::seconds(60)};
  response_services services{edge.context, registry, [this] { return edge.executor; }};
  std::shared_ptr<recording_channel> channel = std::make_shared<recording_channel>();
  std::shared_ptr<response_exchange> exchange = make(channel);

  std::shared_ptr<response_exchange> make(std::shared_ptr<recording_channel> to) {
    return std::make_shared<response_exchange>(services, edge.executor, std::move(to), caller{"", "req"});
  }
  void start(const std::string& members) { start(*exchange, members); }
  void start(response_exchange& to, const std::string& members) {
    auto request = wire::parse_response_request("{\"input\":\"x\"" + members + "}", {});
    to.start(prepare_response(edge.context, {}, *std::move(request), {}));
    edge.executor->run();
  }
  void tokens(std::string_view text) {
    edge.engine.tokens(1, text);
    edge.executor->run();
  }
  void end(finish_reason finish) {
    edge.engine.end(1, finish);
    edge.executor->run();
  }
};

TEST(response_exchange, answers_with_one_object) {
  post p;
  p.start("");
  p.tokens("ab");
  p.end(finish_reason::stop);
  const auto object = json::parse(p.channel->replied.value().body);
  EXPECT_EQ(object.at("status"), "completed");
  EXPECT_EQ(object.at("output").at(0).at("content").at(0).at("text"), "ab");
}

TEST(response_exchange, its_scores_are_those_of_the_text) {
  post p;
  p.start(R"(,"include":["message.output_text.logprobs"])");
  token_event event;
  event.text = "b";
  event.tokens = {token_id{'b'}, token_id{257}};
  event.logprobs = {{token_id{'b'}, -1, {}}, {token_id{257}, -2, {}}};
  event.finish = finish_reason::stop;
  p.edge.engine.submissions.at(1).sink(event);
  p.edge.executor->run();
  const auto object = json::parse(p.channel->replied.value().body);
  EXPECT_EQ(object.at("output").at(0).at("content").at(0).at("logprobs").as_array().size(), 1U);
}

TEST(response_exchange, streams_events_with_their_names) {
  post p;
  p.start(R"(,"stream":true)");
  EXPECT_FALSE(p.channel->streaming) << "opening events wait: the answer may still be a refusal";
  p.tokens("ab");
  p.end(finish_reason::length);
  EXPECT_EQ(p.channel->bytes.find("event: response.created\ndata: {"), 0U);
  EXPECT_NE(p.channel->bytes.find("event: response.output_text.delta\n"), std::string::npos);
  EXPECT_NE(p.channel->bytes.find("event: response.incomplete\n"), std::string::npos);
  EXPECT_EQ(p.channel->data().back(), "[DONE]");
  EXPECT_TRUE(p.channel->finished);
}

TEST(response_exchange, a_refusal_by_the_engine_is_a_status) {
  post p;
  p.start(R"(,"stream":true)");
  p.edge.engine.fail(1, errc::queue_full);
  p.edge.executor->run();
  EXPECT_EQ(p.channel->replied.value().status, 429);
}

TEST(response_exchange, the_end_of_the_server_fails_the_response) {
  post streamed;
  streamed.start(R"(,"stream":true)");
  streamed.tokens("ab");
  streamed.exchange->on_shutdown();
  EXPECT_NE(streamed.channel->bytes.find("event: response.failed\n"), std::string::npos);
  EXPECT_NE(streamed.channel->bytes.find("draining"), std::string::npos);
  EXPECT_TRUE(streamed.channel->finished);
  EXPECT_TRUE(streamed.edge.engine.submissions.at(1).cancelled);
  post whole;
  whole.start("");
  whole.tokens("ab");
  whole.exchange->on_shutdown();
  EXPECT_EQ(whole.channel->replied.value().status, 503);
}

TEST(response_exchange, a_long_wait_opens_the_stream) {
  post p;
  p.start(R"(,"stream":true)");
  p.exchange->on_idle();
  EXPECT_EQ(p.channel->bytes.find("event: response.created"), 0U);
  p.edge.engine.fail(1, errc::device_lost);
  p.edge.executor->run();
  EXPECT_NE(p.channel->bytes.find("event: response.failed"), std::string::npos);
  EXPECT_TRUE(p.channel->finished);
}

TEST(response_exchange, resumes_by_token_and_by_sequence_number) {
  post p;
  p.start(R"(,"stream":true,"paceline":{"resumable":true,"token_ids":true})");
  p.tokens("ab");
  const auto created = json::parse(p.channel->data().at(0));
  const std::string id(created.at("response").at("id").as_string());
  p.exchange->on_disconnect();
  p.tokens("cd");
  p.end(finish_reason::stop);
  for (const auto& start : {replay_start{2, {}}, replay_start{{}, 4}}) {
    auto channel = std::make_shared<recording_channel>();
    auto again = p.make(channel);
    again->resume(id, start);
    p.edge.executor->run();
    const auto first = json::parse(channel->data().at(0));
    EXPECT_EQ(first.at("delta"), "cd");
    EXPECT_EQ(first.at("token_index").as_int64(), 2);
    EXPECT_EQ(channel->data().back(), "[DONE]");
  }
  auto channel = std::make_shared<recording_channel>();
  auto unknown = p.make(channel);
  unknown->resume("resp_x", {});
  EXPECT_EQ(channel->replied.value().status, 404);
}

TEST(response_exchange, a_whole_response_goes_on_without_its_client_in_bounded_memory) {
  post p;
  p.edge.limits.max_replay_bytes = 10'000;
  p.edge.engine.bytes.set_context_length(4096);
  p.start(R"(,"paceline":{"resumable":true})");
  p.tokens("a");
  p.exchange->on_disconnect();
  p.edge.executor->run();
  auto& submission = p.edge.engine.submissions.at(1);
  for (int i = 0; i < 1000; ++i) {
    p.tokens("b");
    ASSERT_GE(submission.credit, static_cast<std::uint64_t>(i + 2)) << "nobody pauses it";
  }
  EXPECT_LT(p.services.kept->num_bytes(), 20'000U);
  p.end(finish_reason::stop);
  EXPECT_EQ(p.services.stored->num_entries(), 1U);
}

TEST(response_exchange, a_whole_resumable_response_waits_for_its_end_alone) {
  post p;
  p.edge.limits.max_replay_bytes = 10'000;
  p.edge.engine.bytes.set_context_length(4096);
  p.start(R"(,"paceline":{"resumable":true})");
  p.channel->full = true; // it takes no events
  for (int i = 0; i < 200; ++i) {
    p.tokens("b");
    ASSERT_GE(p.edge.engine.submissions.at(1).credit, static_cast<std::uint64_t>(i + 1));
  }
  EXPECT_LT(p.services.kept->num_bytes(), 20'000U);
  p.channel->full = false;
  p.end(finish_reason::stop);
  EXPECT_EQ(json::parse(p.channel->replied.value().body).at("status"), "completed");
}

TEST(response_exchange, keeps_a_bounded_number_of_resumable_responses) {
  post p;
  p.start(R"(,"paceline":{"resumable":true})");
  auto channel = std::make_shared<recording_channel>();
  const auto second = p.make(channel);
  p.start(*second, R"(,"paceline":{"resumable":true})");
  EXPECT_EQ(channel->replied.value().status, 429);
  EXPECT_EQ(p.edge.engine.submissions.size(), 1U);
}

TEST(response_exchange, a_client_that_leaves_cancels) {
  post p;
  p.start(R"(,"stream":true)");
  p.tokens("a");
  p.exchange->on_disconnect();
  EXPECT_TRUE(p.edge.engine.submissions.at(1).cancelled);
}

} // namespace
} // namespace paceline::server
