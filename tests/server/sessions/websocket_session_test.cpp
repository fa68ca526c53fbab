#include "server/sessions/websocket_session.hpp"

#include "scripted_socket.hpp"

#include <boost/json/parse.hpp>
#include <gtest/gtest.h>

#include <algorithm>

namespace paceline::server {
namespace {

namespace json = boost::json;

TEST(websocket_session, tells_a_response_and_reads_on) {
  scripted_socket s;
  s.say(R"({"type":"response.create","model":"bytes","input":"hi"})");
  EXPECT_EQ(s.channel->reads, 1);
  s.tokens(1, "ab");
  s.end(1);
  EXPECT_EQ(s.channel->types(),
            (std::vector<std::string>{
                "response.created", "response.in_progress", "response.output_item.added",
                "response.content_part.added", "response.output_text.delta", "response.output_text.done",
                "response.content_part.done", "response.output_item.done", "response.completed"}));
  const auto& response = s.channel->frames.back().at("response");
  EXPECT_EQ(response.at("metrics").at("speculative_decoding").at("num_spec_tokens").as_int64(), 4);
  EXPECT_EQ(s.session->num_lanes(), 0U);
}

TEST(websocket_session, lanes_run_side_by_side_and_one_response_fills_a_lane) {
  scripted_socket s;
  s.say(R"({"type":"response.create","input":"a","stream_id":"x"})");
  s.say(R"({"type":"response.create","input":"b","stream_id":"y"})");
  s.say(R"({"type":"response.create","input":"c","stream_id":"x"})");
  EXPECT_EQ(s.channel->error_code(), "response_already_in_flight");
  EXPECT_EQ(s.channel->frames.back().at("stream_id"), "x");
  EXPECT_EQ(s.edge.engine.submissions.size(), 2U);
  s.tokens(2, "2");
  EXPECT_EQ(s.channel->frames.back().at("stream_id"), "y");
  s.tokens(1, "1");
  EXPECT_EQ(s.channel->frames.back().at("stream_id"), "x");
  s.end(1);
  s.say(R"({"type":"response.create","input":"c","stream_id":"x"})");
  EXPECT_EQ(s.edge.engine.submissions.size(), 3U);
}

class recorded_place final : public body_place {
 public:
  bool wanted_back = false;
  bool begin_use() override { return !wanted_back; }
};

/// A message with its own memory and place, like a large one.
struct counted_message {
  std::shared_ptr<std::string> text;
  std::shared_ptr<recorded_place> place = std::make_shared<recorded_place>();
  explicit counted_message(std::string bytes) : text(std::make_shared<std::string>(std::move(bytes))) {}
  request_body take() { return {*text, std::exchange(text, nullptr), place}; }
};

TEST(websocket_session, a_message_and_what_was_made_of_it_are_not_kept_side_by_side) {
  scripted_socket s;
  counted_message message(R"({"type":"response.create","input":"hi"})");
  const std::weak_ptr<std::string> text = message.text;
  const std::weak_ptr<recorded_place> place = message.place;
  s.session->on_text(message.take());
  message.place.reset();
  EXPECT_TRUE(text.expired());
  EXPECT_FALSE(place.expired()) << "the frame is counted by it";
  s.edge.executor->run();
  EXPECT_TRUE(place.expired());
  ASSERT_EQ(s.edge.jobs.submitted.size(), 2U);
  EXPECT_FALSE(s.edge.jobs.submitted[0].continues);
  EXPECT_TRUE(s.edge.jobs.submitted[1].continues) << "before further messages are read";
}

TEST(websocket_session, a_message_whose_memory_was_wanted_back_is_refused) {
  scripted_socket s;
  counted_message message(R"({"type":"response.create","input":"hi"})");
  message.place->wanted_back = true;
  s.session->on_text(message.take());
  s.edge.executor->run();
  EXPECT_EQ(s.channel->error_code(), "overloaded");
  EXPECT_EQ(s.channel->reads, 1);
  EXPECT_EQ(s.edge.metrics.bodies_given_up, 1U);
  EXPECT_TRUE(s.edge.engine.submissions.empty());
}

TEST(websocket_session, a_large_message_stays_large_whatever_it_is_made_of) {
  const std::string much(100'000, ' ');
  const std::string call = R"([{"type":"function_call","call_id":"c","name":"f","arguments":"{)" + much +
                           R"(}"},{"type":"function_call_output","call_id":"c","output":"x"}])";
  std::string ids = "1";
  for (int i = 0; i < 40'000; ++i) ids += ",1";
  for (const auto& body :
       {R"({"type":"response.create","input":)" + call + "}",
        R"({"type":"response.create","input":"x","prediction":{"type":"content","content":[)" + ids +
            "]}}"}) {
    scripted_socket s;
    s.say(body);
    ASSERT_EQ(s.edge.jobs.submitted.size(), 2U) << body.substr(0, 100);
    EXPECT_TRUE(s.edge.jobs.submitted[0].large);
    EXPECT_TRUE(s.edge.jobs.submitted[1].large) << body.substr(0, 100);
  }
}

TEST(websocket_session, a_request_with_a_schema_or_tools_is_large) {
  for (const std::string field :
       {R"("tools":[{"type":"function","name":"f"}])", R"("text":{"format":{"type":"json_object"}})"}) {
    scripted_socket s;
    s.say(R"({"type":"response.create","input":"x",)" + field + "}");
    ASSERT_EQ(s.edge.jobs.submitted.size(), 2U) << field;
    EXPECT_TRUE(s.edge.jobs.submitted[1].large) << field;
  }
}

TEST(websocket_session, bounds_its_lanes) {
  scripted_socket s;
  s.edge.options.max_lanes = 2;
  for (const auto* lane : {"a", "b", "c"})
    s.say(std::string(R"({"type":"response.create","input":"a","stream_id":")").append(lane).append("\"}"));
  EXPECT_EQ(s.channel->error_code(), "too_many_lanes");
}

TEST(websocket_session, continues_what_it_has_said) {
  scripted_socket s;
  s.say(R"({"type":"response.create","input":"one"})");
  s.tokens(1, "two");
  s.end(1);
  s.say(std::string(R"({"type":"response.create","input":"three","previous_response_id":")")
            .append(s.response_id())
            .append("\"}"));
  const auto& prompt = s.edge.engine.submissions.at(2).request.prompt;
  EXPECT_EQ(s.edge.engine.bytes.decode(prompt, true), "user:one\nassistant:two\nuser:three\n");
  s.say(R"({"type":"response.create","stream_id":"b","input":"x","previous_response_id":"resp_unknown"})");
  EXPECT_EQ(s.channel->error_code(), "previous_response_not_found");
}

TEST(websocket_session, takes_an_item_by_its_id) {
  scripted_socket s;
  s.say(R"({"type":"response.create","input":"one"})");
  s.tokens(1, "two");
  s.end(1);
  const auto refer = [&](const std::string& item) {
    s.say(R"({"type":"response.create","input":[{"type":"item_reference","id":")" + item +
          R"("},{"role":"user","content":"three"}]})");
  };
  refer("msg_unknown");
  EXPECT_EQ(s.channel->error_code(), "item_not_found");
  EXPECT_EQ(s.channel->frames.back().at("error").at("param"), "input[0].id");
  const auto id = s.response_id();
  refer("msg" + id.substr(id.find('_')));
  EXPECT_EQ(s.edge.engine.bytes.decode(s.edge.engine.submissions.at(2).request.prompt, true),
            "assistant:two\nuser:three\n");
}

TEST(websocket_session, warms_up_without_an_answer) {
  scripted_socket s;
  s.say(R"({"type":"response.create","input":"one","generate":false})");
  s.tokens(1, "z");
  s.end(1, finish_reason::length);
  EXPECT_EQ(s.channel->types(),
            (std::vector<std::string>{"response.created", "response.in_progress", "response.completed"}));
  EXPECT_EQ(s.channel->frames.back().at("response").at("usage").at("output_tokens").as_int64(), 0);
  s.say(std::string(R"({"type":"response.create","input":"two","previous_response_id":")")
            .append(s.response_id())
            .append("\"}"));
  EXPECT_EQ(s.edge.engine.bytes.decode(s.edge.engine.submissions.at(2).request.prompt, true),
            "user:one\nuser:two\n");
}

TEST(websocket_session, refusals_are_frames_and_the_connection_goes_on) {
  scripted_socket s;
  for (const auto* text : {"nonsense", R"({"type":"session.update"})",
                           R"({"type":"response.create","input":"x","temperature":9})",
                           R"({"type":"response.create","input":"x","model":"gpt"})"}) {
    s.say(text);
    EXPECT_EQ(s.channel->frames.back().at("type"), "error") << text;
  }
  EXPECT_EQ(s.channel->reads, 4);
  EXPECT_EQ(s.session->num_lanes(), 0U);
  s.say(R"({"type":"response.create","input":"hi"})");
  EXPECT_EQ(s.session->num_lanes(), 1U);
}

TEST(websocket_session, a_failed_response_says_so_and_frees_its_lane) {
  scripted_socket s;
  s.say(R"({"type":"response.create","input":"hi"})");
  s.edge.engine.fail(1, errc::queue_full);
  s.edge.executor->run();
  EXPECT_EQ(s.channel->frames.back().at("type"), "response.failed");
  EXPECT_EQ(s.channel->frames.back().at("response").at("error").at("paceline_code"), "queue_full");
  EXPECT_EQ(s.session->num_lanes(), 0U);
}

TEST(websocket_session, cancels_by_id_and_hears_the_ending) {
  scripted_socket s;
  s.say(R"({"type":"response.create","input":"hi"})");
  s.say(std::string(R"({"type":"response.cancel","response_id":")").append(s.response_id()).append("\"}"));
  EXPECT_TRUE(s.edge.engine.submissions.at(1).cancelled);
  s.end(1, finish_reason::cancelled);
  EXPECT_EQ(s.channel->frames.back().at("response").at("status"), "cancelled");
  s.say(R"({"type":"response.cancel","response_id":"resp_unknown"})");
  EXPECT_EQ(s.channel->error_code(), "response_not_found");
}

/// Cancels a response. True if that is answered by nothing, and the next message is read.
bool is_ignored(scripted_socket& s, const std::string& id) {
  const auto num_frames = s.channel->frames.size();
  const auto num_reads = s.channel->reads;
  s.say(R"({"type":"response.cancel","stream_id":"x","response_id":")" + id + "\"}");
  EXPECT_EQ(s.channel->reads, num_reads + 1);
  return s.channel->frames.size() == num_frames;
}

TEST(websocket_session, a_cancel_that_comes_after_the_end_is_ignored) {
  scripted_socket s;
  s.say(R"({"type":"response.create","input":"hi","store":false})");
  const auto ended = s.response_id();
  s.end(1);
  EXPECT_TRUE(is_ignored(s, ended));
  const auto first = s.channel->frames.size();
  s.say(R"({"type":"response.create","input":"hi"})");
  s.edge.engine.fail(2, errc::queue_full);
  s.edge.executor->run();
  EXPECT_TRUE(is_ignored(s, s.response_id(first)));
  EXPECT_FALSE(is_ignored(s, "resp_unknown"));
  EXPECT_EQ(s.channel->error_code(), "response_not_found");
  EXPECT_EQ(s.channel->frames.back().at("stream_id"), "x");
}

TEST(websocket_session, a_cancel_that_comes_before_the_client_reads_the_end_is_ignored) {
  scripted_socket s;
  s.say(R"({"type":"response.create","input":"hi","store":false,"paceline":{"resumable":true}})");
  s.channel->full = true;
  s.end(1);
  EXPECT_EQ(s.session->num_lanes(), 1U) << "its end waits in the log";
  EXPECT_TRUE(is_ignored(s, s.response_id()));
  s.channel->full = false;
  s.session->on_writable();
  s.edge.executor->run();
  EXPECT_EQ(s.channel->types().back(), "response.completed");
}

TEST(websocket_session, remembers_a_bounded_number_of_responses_that_have_ended) {
  scripted_socket s;
  s.edge.limits.max_stored_responses = 2;
  std::vector<std::string> ids;
  for (std::uint64_t i = 1; i <= 3; ++i) {
    s.say(R"({"type":"response.create","input":"hi","store":false})");
    s.end(i);
    ids.emplace_back(s.channel->frames.back().at("response").at("id").as_string());
  }
  EXPECT_FALSE(is_ignored(s, ids[0]));
  EXPECT_TRUE(is_ignored(s, ids[1]));
  EXPECT_TRUE(is_ignored(s, ids[2]));
}

TEST(websocket_session, another_tenant_cannot_name_a_response) {
  scripted_socket s;
  s.say(R"({"type":"response.create","input":"hi"})");
  EXPECT_FALSE(s.registry.cancel(s.response_id(), "somebody"));
  EXPECT_TRUE(s.registry.cancel(s.response_id(), ""));
}

TEST(websocket_session, a_client_that_leaves_cancels_all_lanes) {
  scripted_socket s;
  s.say(R"({"type":"response.create","input":"a","stream_id":"x"})");
  s.say(R"({"type":"response.create","input":"b","stream_id":"y"})");
  s.session->on_disconnect();
  EXPECT_TRUE(s.edge.engine.submissions.at(1).cancelled && s.edge.engine.submissions.at(2).cancelled);
  EXPECT_EQ(s.edge.metrics.disconnect_cancels, 2U);
  s.end(1, finish_reason::cancelled);
  EXPECT_EQ(s.edge.metrics.open_requests, 0U);
}

TEST(websocket_session, a_slow_reader_holds_back_its_own_lanes) {
  scripted_socket s;
  s.say(R"({"type":"response.create","input":"a"})");
  s.channel->full = true;
  s.tokens(1, "abc");
  EXPECT_EQ(s.edge.engine.submissions.at(1).credit, s.edge.limits.initial_credit);
  s.channel->full = false;
  s.session->on_writable();
  EXPECT_EQ(s.edge.engine.submissions.at(1).credit, s.edge.limits.initial_credit + 3);
}

TEST(websocket_session, drains_when_its_lanes_are_done) {
  scripted_socket s;
  s.say(R"({"type":"response.create","input":"a"})");
  s.session->drain();
  EXPECT_FALSE(s.channel->closed);
  s.say(R"({"type":"response.create","input":"b","stream_id":"y"})");
  EXPECT_EQ(s.channel->error_code(), "draining");
  s.end(1);
  EXPECT_EQ(s.channel->closed, close_code::going_away);
}

TEST(websocket_session, says_that_its_lifetime_is_over) {
  scripted_socket s;
  s.session->expire();
  EXPECT_EQ(s.channel->error_code(), "websocket_connection_limit_reached");
  EXPECT_EQ(s.channel->closed, close_code::going_away);
}

TEST(websocket_session, closes_on_binary_messages) {
  scripted_socket s;
  s.session->on_binary(std::string("x"));
  EXPECT_EQ(s.channel->closed, close_code::unsupported_data);
}

TEST(websocket_session, a_full_edge_refuses_and_reads_on) {
  scripted_socket s;
  s.edge.jobs.full = true;
  s.say(R"({"type":"response.create","input":"a"})");
  EXPECT_EQ(s.channel->error_code(), "overloaded");
  EXPECT_EQ(s.channel->reads, 1);
}

TEST(websocket_session, the_end_of_the_server_fails_what_runs_and_closes) {
  scripted_socket s;
  s.say(R"({"type":"response.create","input":"a","stream_id":"x"})");
  s.tokens(1, "ab");
  s.say(R"({"type":"response.create","input":"b","stream_id":"y","paceline":{"resumable":true}})");
  s.session->shut_down();
  s.edge.executor->run();
  const auto failed = std::find_if(s.channel->frames.begin(), s.channel->frames.end(),
                                   [](const auto& frame) { return frame.at("type") == "response.failed"; });
  ASSERT_NE(failed, s.channel->frames.end());
  EXPECT_EQ(failed->at("stream_id"), "x");
  EXPECT_EQ(failed->at("response").at("error").at("paceline_code"), "draining");
  EXPECT_EQ(s.channel->error_code(), "draining") << "the other belongs to a log";
  EXPECT_EQ(s.channel->frames.back().at("stream_id"), "y");
  EXPECT_EQ(s.channel->closed, close_code::going_away);
  EXPECT_EQ(s.session->num_lanes(), 0U);
}

TEST(websocket_session, a_message_without_room_closes_with_a_wish_to_try_again) {
  scripted_socket s;
  s.session->on_overload();
  EXPECT_EQ(s.channel->error_code(), "overloaded");
  EXPECT_EQ(s.channel->closed, close_code::try_again);
}

} // namespace
} // namespace paceline::server
