// Replies that are too long to be one text, or that keep too much until they are whole.
#include "conversation.hpp"

#include <boost/json/parse.hpp>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

namespace paceline::server {
namespace {

namespace json = boost::json;

/// Ends a request whose reply is too long to be one text.
void answer_at_length(conversation& c) {
  c.edge.engine.bytes.set_context_length(100'000);
  c.chat(
      R"({"messages":[{"role":"user","content":"x"}],"max_tokens":5000,"logprobs":true,"top_logprobs":2})");
  for (int i = 0; i < 50; ++i) c.tokens(std::string(100, 'a'));
  c.end(finish_reason::length);
}

TEST(completion_session, the_end_of_the_server_writes_nothing_into_a_reply_in_pieces) {
  conversation c;
  c.channel->room = 3;
  answer_at_length(c);
  const auto sent = c.channel->bytes.size();
  c.session->on_shutdown();
  EXPECT_FALSE(c.channel->replied);
  EXPECT_FALSE(c.channel->finished) << "the client must see that it is cut off";
  EXPECT_EQ(c.channel->bytes.size(), sent);
}

TEST(completion_session, a_long_reply_goes_out_in_pieces_as_the_client_takes_them) {
  conversation c;
  c.channel->room = 3;
  answer_at_length(c);
  EXPECT_FALSE(c.channel->replied);
  EXPECT_TRUE(c.channel->in_pieces);
  EXPECT_EQ(header_of(c.channel->stream_headers, "x-request-id"), "req");
  EXPECT_EQ(c.channel->num_sends, 3);
  EXPECT_FALSE(c.channel->finished);
  c.session->on_idle(); // no comment lines in JSON
  c.channel->room = 0;
  c.channel->full = false;
  c.session->on_writable();
  EXPECT_TRUE(c.channel->finished);
  const auto reply = json::parse(c.channel->bytes).as_object();
  EXPECT_EQ(reply.at("choices").at(0).at("logprobs").at("content").as_array().size(), 5000U);
  EXPECT_EQ(reply.at("choices").at(0).at("message").at("content").as_string().size(), 5000U);
  EXPECT_EQ(c.edge.metrics.open_requests, 0U);
}

/// Three prompts whose reply keeps more than it may: each token of output costs 15 bytes and more.
struct early_reply : conversation {
  explicit early_reply(std::uint64_t kept = 300) {
    edge.limits.kept_of_reply = kept;
    complete(R"({"prompt":["a","b","c"],"max_tokens":60,"logprobs":1})");
  }
  std::uint64_t credit(std::uint64_t id) { return submitted(id).credit; }
};

TEST(completion_session, a_reply_that_would_keep_too_much_begins_before_its_last_choice) {
  early_reply c;
  c.tokens(std::string(40, 'x'), 2);
  c.tokens("y", 1);
  EXPECT_FALSE(c.channel->in_pieces) << "the first choice has not ended";
  c.end(finish_reason::stop, 1);
  EXPECT_TRUE(c.channel->in_pieces);
  EXPECT_EQ(c.channel->kept, 0U) << "nothing waits for the client";
  const auto begin = c.channel->bytes;
  EXPECT_NE(begin.find(R"("text":"y")"), std::string::npos) << begin;
  EXPECT_EQ(begin.find(R"("index":1)"), std::string::npos) << begin;
  c.session->on_idle();
  EXPECT_EQ(c.channel->bytes, begin + "\n");
  c.end(finish_reason::stop, 3);
  c.end(finish_reason::stop, 2);
  EXPECT_TRUE(c.channel->finished);
  const auto reply = json::parse(c.channel->bytes).as_object();
  ASSERT_EQ(reply.at("choices").as_array().size(), 3U);
  EXPECT_EQ(reply.at("choices").at(1).at("text").as_string(), std::string(40, 'x'));
  EXPECT_EQ(reply.at("choices").at(1).at("logprobs").at("tokens").as_array().size(), 40U);
  EXPECT_EQ(reply.at("choices").at(2).at("index"), 2);
  EXPECT_EQ(reply.at("usage").at("completion_tokens").as_int64(), 41);
  EXPECT_EQ(c.edge.metrics.open_requests, 0U);
}

TEST(completion_session, of_choices_that_keep_too_much_the_first_alone_goes_on) {
  early_reply c;
  const auto window = c.credit(1);
  ASSERT_TRUE(c.submitted().paced);
  c.tokens(std::string(5, 'x'), 2);
  EXPECT_EQ(c.credit(2), window + 5) << "there is room";
  c.tokens(std::string(40, 'x'), 2);
  c.tokens(std::string(5, 'x'), 3);
  EXPECT_EQ(c.credit(2), window + 5);
  EXPECT_EQ(c.credit(3), window);
  c.tokens(std::string(5, 'x'), 1);
  EXPECT_EQ(c.credit(1), window + 5) << "all wait for it";
  c.end(finish_reason::stop, 1);
  EXPECT_EQ(c.credit(2), window + 45) << "now it is the first";
  EXPECT_EQ(c.credit(3), window) << "the second keeps more than there is room for";
  c.channel->full = true;
  c.end(finish_reason::stop, 2);
  c.tokens(std::string(40, 'x'), 3);
  EXPECT_EQ(c.credit(3), window) << "the client does not take what there is";
  c.channel->full = false;
  c.session->on_writable();
  EXPECT_EQ(c.credit(3), window + 45);
  c.end(finish_reason::stop, 3);
  EXPECT_TRUE(c.channel->finished);
}

TEST(completion_session, short_replies_leave_credit_to_the_engine) {
  early_reply c(12U << 20U);
  EXPECT_FALSE(c.submitted().paced);
}

TEST(completion_session, a_reply_that_has_begun_and_fails_is_cut_off) {
  early_reply c;
  c.tokens(std::string(40, 'x'), 1);
  c.end(finish_reason::stop, 1);
  ASSERT_TRUE(c.channel->in_pieces);
  c.edge.engine.fail(2, errc::device_lost);
  c.edge.executor->run();
  EXPECT_TRUE(c.channel->abandoned);
  EXPECT_FALSE(c.channel->replied);
  EXPECT_TRUE(c.submitted(3).cancelled);
  early_reply at_shutdown;
  at_shutdown.tokens(std::string(40, 'x'), 1);
  at_shutdown.end(finish_reason::stop, 1);
  at_shutdown.session->on_shutdown();
  EXPECT_TRUE(at_shutdown.channel->abandoned);
}

TEST(completion_session, a_client_that_leaves_amid_the_pieces_gets_no_more) {
  conversation c;
  c.channel->room = 1;
  answer_at_length(c);
  c.session->on_disconnect();
  c.session->on_writable();
  EXPECT_EQ(c.channel->num_sends, 1);
}

} // namespace
} // namespace paceline::server
