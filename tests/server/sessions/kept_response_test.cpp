// What outlives a WebSocket: responses that may be resumed, and conversations that may be continued.
#include "scripted_socket.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace paceline::server {
namespace {

TEST(websocket_session, a_resumable_response_outlives_its_connection_and_goes_on_elsewhere) {
  scripted_socket s;
  s.say(R"({"type":"response.create","input":"hi","stream_id":"x","paceline":{"resumable":true}})");
  const auto id = s.response_id();
  s.tokens(1, "ab");
  s.session->on_disconnect();
  EXPECT_FALSE(s.edge.engine.submissions.at(1).cancelled);
  s.tokens(1, "cd");

  auto again = std::make_shared<recording_frames>();
  auto session = std::make_shared<websocket_session>(s.services, s.edge.executor, again, caller{"", "req"});
  session->on_text(
      std::string(R"({"type":"response.create","stream_id":"x","paceline":{"resume":{"response_id":")")
          .append(id)
          .append("\",\"next_token\":2}}}"));
  s.edge.executor->run();
  ASSERT_EQ(again->types(), (std::vector<std::string>{"response.output_text.delta"}));
  EXPECT_EQ(again->frames[0].at("token_index").as_int64(), 2);
  EXPECT_EQ(again->frames[0].at("delta"), "cd");
  s.tokens(1, "e");
  s.end(1);
  EXPECT_EQ(again->types().back(), "response.completed");
  EXPECT_EQ(again->frames.back().at("response").at("output").at(0).at("content").at(0).at("text"), "abcde");
  EXPECT_EQ(session->num_lanes(), 0U);
}

TEST(websocket_session, lanes_that_end_when_the_client_reads_on_leave_the_others_in_order) {
  scripted_socket s;
  for (const char* name : {"x", "y", "z"})
    s.say(
        std::string(R"({"type":"response.create","input":"a","paceline":{"resumable":true},"stream_id":")") +
        name + "\"}");
  s.channel->full = true;
  for (const std::uint64_t id : {1U, 2U, 3U}) {
    s.tokens(id, "ab");
    s.end(id);
  }
  EXPECT_EQ(s.session->num_lanes(), 3U);
  s.channel->full = false;
  s.session->on_writable(); // each log is told to its end
  s.edge.executor->run();
  EXPECT_EQ(s.session->num_lanes(), 0U);
  const auto types = s.channel->types();
  EXPECT_EQ(std::count(types.begin(), types.end(), "response.completed"), 3);
}

TEST(websocket_session, a_resumable_response_that_nobody_resumes_is_ended) {
  scripted_socket s;
  s.say(R"({"type":"response.create","input":"hi","paceline":{"resumable":true}})");
  s.session->on_disconnect();
  s.edge.now += std::chrono::seconds(59);
  s.registry.sweep(s.edge.now);
  EXPECT_EQ(s.registry.num_resumable(), 1U);
  s.edge.now += std::chrono::seconds(2);
  s.registry.sweep(s.edge.now);
  s.edge.executor->run();
  EXPECT_EQ(s.registry.num_resumable(), 0U);
  EXPECT_TRUE(s.edge.engine.submissions.at(1).cancelled);
}

TEST(websocket_session, what_is_kept_for_nobody_goes_when_memory_is_short_as_if_expired) {
  scripted_socket s;
  s.services.kept = std::make_shared<kept_memory>(20'000);
  auto session =
      std::make_shared<websocket_session>(s.services, s.edge.executor, s.channel, caller{"", "req"});
  session->on_text(std::string(
      R"({"type":"response.create","input":"hi","stream_id":"x","paceline":{"resumable":true}})"));
  s.edge.executor->run();
  const auto id = s.response_id();
  s.tokens(1, "ab");
  session->on_disconnect();
  s.edge.executor->run();
  EXPECT_EQ(s.registry.num_resumable(), 1U);
  EXPECT_GT(s.services.kept->num_bytes(), 0U);

  const auto other = s.services.kept->open("", [] {});
  other->resize(20'000);
  EXPECT_TRUE(s.services.kept->make_room());
  s.edge.executor->run();
  EXPECT_EQ(s.registry.num_resumable(), 0U);
  EXPECT_TRUE(s.edge.engine.submissions.at(1).cancelled);
  EXPECT_EQ(s.registry.log(id, ""), nullptr);
}

TEST(websocket_session, a_conversation_that_gave_way_is_not_found) {
  scripted_socket s;
  s.services.kept = std::make_shared<kept_memory>(20'000);
  s.services.stored = std::make_shared<response_store>(store_limits_of(s.services.edge), s.services.kept);
  s.session = std::make_shared<websocket_session>(s.services, s.edge.executor, s.channel, caller{"", "req"});
  s.say(R"({"type":"response.create","input":"one"})");
  s.tokens(1, "two");
  s.end(1);
  const auto id = s.response_id();
  const auto other = s.services.kept->open("", [] {});
  other->resize(20'000);
  EXPECT_TRUE(s.services.kept->make_room());
  s.say(std::string(R"({"type":"response.create","input":"three","previous_response_id":")")
            .append(id)
            .append("\"}"));
  EXPECT_EQ(s.channel->error_code(), "previous_response_not_found");
}

} // namespace
} // namespace paceline::server
