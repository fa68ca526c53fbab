// How far the engine may run ahead of a client, and what waits for a client that does not read.
#include "conversation.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

namespace paceline::server {
namespace {

TEST(completion_session, credit_follows_the_reader) {
  conversation c;
  c.complete(R"({"prompt":"a","stream":true})");
  EXPECT_EQ(c.submitted().credit, c.edge.limits.initial_credit);
  c.tokens("xyz");
  EXPECT_EQ(c.submitted().credit, c.edge.limits.initial_credit + 3);
  c.channel->full = true;
  c.tokens("abcd");
  c.tokens("e");
  EXPECT_EQ(c.submitted().credit, c.edge.limits.initial_credit + 3);
  EXPECT_EQ(c.edge.metrics.flow_pauses, 1U);
  c.channel->full = false;
  c.session->on_writable();
  EXPECT_EQ(c.submitted().credit, c.edge.limits.initial_credit + 8);
}

TEST(completion_session, scores_of_a_prompt_are_paid_for_as_they_are_taken) {
  conversation c;
  c.complete(R"({"prompt":"abc","echo":true,"logprobs":1,"max_tokens":4,"stream":true})");
  const auto first = c.edge.limits.initial_credit;
  token_event part;
  part.prompt_logprobs = {{token_id{'a'}, -1, {}}, {token_id{'b'}, -1, {}}};
  c.submitted().sink(part);
  c.edge.executor->run();
  EXPECT_EQ(c.submitted().credit, first + 2);
  c.channel->full = true;
  c.submitted().sink(part);
  c.edge.executor->run();
  EXPECT_EQ(c.submitted().credit, first + 2) << "they wait for the client";
}

TEST(completion_session, whole_answers_leave_credit_to_the_engine) {
  conversation c;
  c.complete(R"({"prompt":"a"})");
  EXPECT_FALSE(c.submitted().paced);
}

TEST(completion_session, many_choices_share_what_a_few_may_run_ahead) {
  const auto credit = [](int num_choices) {
    conversation c;
    c.complete(R"({"prompt":"a","stream":true,"n":)" + std::to_string(num_choices) + "}");
    return c.submitted().credit;
  };
  EXPECT_EQ(credit(8), 256U);
  EXPECT_EQ(credit(16), 128U);
  EXPECT_EQ(credit(128), 65U) << "the longest draft and one token more";
}

TEST(completion_session, prompts_that_are_scored_go_on_as_the_client_takes_what_was_scored) {
  conversation c;
  c.complete(R"({"prompt":["a","b","c","d","e","f"],"stream":true,"echo":true,"logprobs":1,"max_tokens":2})");
  const auto num_open = [&] {
    return std::count_if(c.edge.engine.submissions.begin(), c.edge.engine.submissions.end(),
                         [](const auto& one) { return one.second.credit > 0; });
  };
  EXPECT_EQ(num_open(), 4) << "the others may score all but the last token of their prompts";
  c.end(finish_reason::length, 1);
  EXPECT_EQ(num_open(), 5);
  c.channel->full = true;
  c.end(finish_reason::length, 2);
  EXPECT_EQ(num_open(), 5);
  c.channel->full = false;
  c.session->on_writable();
  EXPECT_EQ(num_open(), 6);
  for (const std::uint64_t id : {3U, 4U, 5U, 6U}) c.end(finish_reason::length, id);
  EXPECT_TRUE(c.channel->finished);
}

TEST(completion_session, behind_a_client_that_does_not_read_events_wait_unwritten_and_in_order) {
  const auto tell = [](conversation& c, bool full) {
    c.channel->keeps_sources = full;
    c.complete(
        R"({"prompt":"ab","stream":true,"n":2,"echo":true,"logprobs":2,"return_token_ids":true,"max_tokens":60})");
    c.channel->full = full;
    for (const std::uint64_t id : {1U, 2U}) {
      c.tokens("x", id);
      token_event event;
      for (int i = 0; i < 50; ++i) {
        event.text += 'x';
        event.tokens.emplace_back('x');
        event.logprobs.push_back({token_id{'x'}, -0.123456F, {}});
        for (int j = 0; j < 20; ++j) event.logprobs.back().top.emplace_back('a' + j, -1.2345678F);
      }
      c.submitted(id).sink(event);
      c.edge.executor->run();
      c.end(finish_reason::length, id);
    }
  };
  conversation reading;
  tell(reading, false);
  const auto read = reading.channel;
  conversation stalled;
  tell(stalled, true);
  const auto unread = stalled.channel;
  EXPECT_LT(unread->held_bytes(), read->bytes.size() * 7 / 10);
  EXPECT_LT(unread->bytes.size(), read->bytes.size() / 10);
  EXPECT_EQ(unread->all_shared().size(), 4U) << "two choices with one text and one list of ids";
  EXPECT_EQ(unread->all_shared()[0].identity, unread->all_shared()[2].identity);
  const auto without_id = [](std::string text) {
    for (std::size_t at = 0; (at = text.find("cmpl-", at)) != std::string::npos;) text.erase(at, 37);
    return text;
  };
  const auto end = std::exchange(unread->bytes, {});
  EXPECT_EQ(end, "data: [DONE]\n\n") << "the events wait before it";
  unread->release();
  EXPECT_TRUE(without_id(unread->bytes) + end == without_id(read->bytes));
}

TEST(completion_session, rounds_that_wait_for_a_client_count_as_waiting) {
  const auto held = [](std::size_t num_nodes) {
    conversation c;
    c.complete(R"({"prompt":"ab","stream":true,"logprobs":2,"max_tokens":60,"paceline":{"trace":true}})");
    c.channel->full = c.channel->keeps_sources = true;
    token_event event;
    event.tokens = {token_id{'x'}};
    event.logprobs.push_back({token_id{'x'}, -1.0F, {}});
    event.trace.emplace();
    event.trace->draft_tokens.assign(num_nodes, token_id{'x'});
    event.trace->parents.assign(num_nodes, -1);
    c.submitted().sink(event);
    c.edge.executor->run();
    const auto bytes = c.channel->held_bytes();
    c.end(finish_reason::length);
    return bytes;
  };
  EXPECT_GE(held(64), held(0) + 64 * (sizeof(token_id) + sizeof(std::int32_t)));
}

} // namespace
} // namespace paceline::server
