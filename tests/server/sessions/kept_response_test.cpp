// What outlives a WebSocket: responses that may be resumed, and conversations that may be continued.
#include "scripted_socket.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
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

/// Runs a task as soon as it is posted, or after the one that posts it: a thread that is always quicker.
class eager_executor final : public serial_executor {
 public:
  void post(std::function<void()> task) override {
    tasks_.post(std::move(task));
    if (std::exchange(running_, true)) return;
    tasks_.run();
    running_ = false;
  }

 private:
  queue_executor tasks_;
  bool running_ = false;
};

TEST(websocket_session, a_client_that_answers_the_end_of_a_resumable_response_at_once_finds_it_ended) {
  scripted_socket s;
  const auto own = std::make_shared<queue_executor>();
  s.services.make_executor = [own] { return own; };
  s.session = std::make_shared<websocket_session>(s.services, std::make_shared<eager_executor>(), s.channel,
                                                  caller{"", "req"});
  const std::string create = R"({"type":"response.create","input":"hi","store":false,)";
  s.session->on_text(create + R"("paceline":{"resumable":true}})");
  own->run();
  const auto id = s.response_id();
  bool answered = false;
  s.channel->on_frame = [&](const std::string& type) {
    if (type != "response.completed") return;
    answered = true;
    EXPECT_FALSE(s.registry.in_progress(id, ""));
    EXPECT_TRUE(s.registry.log(id, "")->result());
    s.session->on_text(create + R"("previous_response_id":")" + id + "\"}");
  };
  s.edge.engine.end(1, finish_reason::stop, "ab");
  own->run();
  EXPECT_TRUE(answered);
  EXPECT_EQ(s.edge.engine.submissions.size(), 2U) << "the lane is free, and the conversation is kept";
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

TEST(websocket_session, a_reader_that_comes_while_a_response_is_dropped_does_not_wait_for_it) {
  scripted_socket s;
  s.say(R"({"type":"response.create","input":"hi","paceline":{"resumable":true}})");
  const auto id = s.response_id();
  s.session->on_disconnect();
  const auto log = s.registry.log(id, ""); // as `resume` takes it, just before the sweep
  s.edge.now += std::chrono::seconds(60);
  s.registry.sweep(s.edge.now);
  EXPECT_EQ(s.registry.num_resumable(), 0U);
  EXPECT_FALSE(log->attach({}, {})) << "nobody writes to this log any more";
}

TEST(websocket_session, a_reader_that_comes_before_the_sweep_keeps_the_response) {
  scripted_socket s;
  s.say(R"({"type":"response.create","input":"hi","paceline":{"resumable":true}})");
  const auto id = s.response_id();
  s.session->on_disconnect();
  s.edge.now += std::chrono::seconds(60);
  EXPECT_TRUE(s.registry.log(id, "")->attach({}, {}));
  s.registry.sweep(s.edge.now);
  EXPECT_EQ(s.registry.num_resumable(), 1U);
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
