#include "server/sessions/completion_session.hpp"

#include "conversation.hpp"

#include <boost/json/parse.hpp>
#include <boost/json/value_to.hpp>
#include <gtest/gtest.h>

#include <algorithm>

namespace paceline::server {
namespace {

namespace json = boost::json;

TEST(completion_session, answers_whole) {
  conversation c;
  c.complete(R"({"prompt":"ab","max_tokens":5,"seed":9,"unknown_field":1})");
  EXPECT_EQ(c.submitted().request.prompt.size(), 3U);
  EXPECT_EQ(c.submitted().request.sampling.seed, 9U);
  c.tokens("he");
  c.tokens("y");
  EXPECT_FALSE(c.channel->replied);
  c.end(finish_reason::stop);
  const auto reply = c.reply();
  EXPECT_EQ(reply.at("choices").at(0).at("text"), "hey");
  EXPECT_EQ(reply.at("choices").at(0).at("finish_reason"), "stop");
  EXPECT_EQ(reply.at("usage").at("completion_tokens").as_int64(), 3);
  EXPECT_EQ(reply.at("usage").at("prompt_tokens_details").at("cached_tokens").as_int64(), 2);
  EXPECT_EQ(reply.at("metrics").at("speculative_decoding").at("num_draft_tokens").as_int64(), 8);
  EXPECT_EQ(header_of(c.channel->replied->headers, "x-paceline-ignored-fields"), "unknown_field");
  EXPECT_EQ(header_of(c.channel->replied->headers, "x-request-id"), "req");
}

TEST(completion_session, streams_chat_in_the_order_of_the_protocol) {
  conversation c;
  c.chat(
      R"({"messages":[{"role":"user","content":"x"}],"stream":true,"stream_options":{"include_usage":true}})");
  c.tokens("ab");
  c.end(finish_reason::length);
  const auto data = c.channel->data();
  ASSERT_EQ(data.size(), 5U);
  const auto delta = [&](std::size_t i) {
    return json::parse(data[i]).at("choices").at(0).at("delta").as_object();
  };
  EXPECT_EQ(delta(0).at("role"), "assistant");
  EXPECT_EQ(delta(1).at("content"), "ab");
  EXPECT_TRUE(delta(2).empty());
  EXPECT_EQ(json::parse(data[2]).at("choices").at(0).at("finish_reason"), "length");
  EXPECT_TRUE(json::parse(data[1]).at("usage").is_null());
  EXPECT_EQ(json::parse(data[3]).at("usage").at("completion_tokens").as_int64(), 2);
  EXPECT_TRUE(json::parse(data[3]).at("choices").as_array().empty());
  EXPECT_EQ(data[4], "[DONE]");
  EXPECT_TRUE(c.channel->finished);
}

TEST(completion_session, choices_of_a_chat_open_in_order_whichever_comes_first) {
  conversation c;
  c.chat(R"({"messages":[{"role":"user","content":"x"}],"stream":true,"n":3})");
  for (const std::uint64_t id : {3U, 1U, 2U}) {
    c.tokens(std::to_string(id), id);
    c.end(finish_reason::stop, id);
  }
  std::vector<std::string> told;
  for (const auto& data : c.channel->data()) {
    if (data == "[DONE]") continue;
    const auto choice = json::parse(data).at("choices").at(0);
    const auto& delta = choice.at("delta").as_object();
    told.push_back(std::to_string(choice.at("index").as_int64()) +
                   (delta.contains("role")      ? " opens"
                    : delta.contains("content") ? " " + json::value_to<std::string>(delta.at("content"))
                                                : " ends"));
  }
  EXPECT_EQ(told, (std::vector<std::string>{"0 opens", "1 opens", "2 opens", "2 3", "2 ends", "0 1", "0 ends",
                                            "1 2", "1 ends"}));
}

TEST(completion_session, continuous_usage_never_falls) {
  conversation c;
  c.chat(R"({"messages":[{"role":"user","content":"x"}],"stream":true,"n":2,)"
         R"("stream_options":{"continuous_usage_stats":true}})");
  c.tokens("abc", 1);
  c.tokens("d", 2);
  std::vector<std::int64_t> counts;
  for (const auto& data : c.channel->data())
    counts.push_back(json::parse(data).at("usage").at("completion_tokens").as_int64());
  EXPECT_EQ(counts, (std::vector<std::int64_t>{3, 3, 4, 4}));
  EXPECT_EQ(json::parse(c.channel->data()[0]).at("usage").at("prompt_tokens").as_int64(), 7);
}

TEST(completion_session, gives_each_prompt_its_choices_in_order) {
  conversation c;
  c.complete(R"({"prompt":["a","b"],"n":2})");
  ASSERT_EQ(c.edge.engine.submissions.size(), 4U);
  EXPECT_EQ(c.submitted(2).request.sampling.choice_index, 1U);
  EXPECT_EQ(c.submitted(1).request.sampling.seed, c.submitted(2).request.sampling.seed);
  for (const std::uint64_t id : {4U, 2U, 1U, 3U}) {
    c.tokens(std::to_string(id), id);
    c.end(finish_reason::stop, id);
  }
  const auto choices = c.reply().at("choices").as_array();
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(choices[i].at("index").to_number<std::size_t>(), i);
    EXPECT_EQ(choices[i].at("text").as_string(), std::to_string(i + 1));
  }
  EXPECT_EQ(c.reply().at("usage").at("prompt_tokens").as_int64(), 4); // BOS and a letter for each prompt
  EXPECT_FALSE(c.reply().contains("metrics"));
}

TEST(completion_session, echo_with_logprobs_scores_the_prompt_but_its_first_token) {
  conversation c;
  c.complete(R"({"prompt":"ab","echo":true,"logprobs":1,"max_tokens":1})");
  EXPECT_TRUE(c.submitted().request.sampling.prompt_logprobs);
  token_event first; // a long prompt is scored in parts
  first.prompt_logprobs = {{token_id{'a'}, -1, {{token_id{'a'}, -1}}}};
  c.submitted().sink(first);
  token_event event;
  event.text = "c";
  event.tokens = {token_id{'c'}};
  event.logprobs = {{token_id{'c'}, -3, {{token_id{'d'}, -1}}}};
  event.prompt_logprobs = {{token_id{'b'}, -2, {{token_id{'x'}, -1}}}};
  event.finish = finish_reason::length;
  c.submitted().sink(event);
  c.edge.executor->run();
  const auto choice = c.reply().at("choices").at(0).as_object();
  EXPECT_EQ(choice.at("text"), "abc");
  const auto& scores = choice.at("logprobs").as_object();
  EXPECT_EQ(json::value_to<std::vector<std::string>>(scores.at("tokens")),
            (std::vector<std::string>{"<256>", "a", "b", "c"}));
  EXPECT_TRUE(scores.at("token_logprobs").at(0).is_null());
  EXPECT_EQ(scores.at("token_logprobs").at(2).as_double(), -2);
  EXPECT_EQ(scores.at("top_logprobs").at(3).as_object().size(), 2U);
}

/// The last event of a request that token 257, the end of a turn, ends behind "b".
token_event end_by_token() {
  token_event event;
  event.text = "b";
  event.tokens = {token_id{'b'}, token_id{257}};
  event.logprobs = {{token_id{'b'}, -1, {}}, {token_id{257}, -2, {}}};
  event.finish = finish_reason::stop;
  return event;
}

TEST(completion_session, a_chats_scores_are_those_of_its_text) {
  for (const bool streams : {false, true}) {
    conversation c;
    c.chat(std::string(R"({"messages":[{"role":"user","content":"x"}],"logprobs":true,"stream":)") +
           (streams ? "true}" : "false}"));
    c.submitted().sink(end_by_token());
    c.edge.executor->run();
    const auto choice =
        streams ? json::parse(c.channel->data().at(1)).at("choices").at(0) : c.reply().at("choices").at(0);
    const auto& content = choice.at("logprobs").at("content").as_array();
    ASSERT_EQ(content.size(), 1U) << streams;
    EXPECT_EQ(content[0].at("token"), "b");
  }
  conversation ignoring;
  ignoring.chat(R"({"messages":[{"role":"user","content":"x"}],"logprobs":true,"ignore_eos":true})");
  ignoring.submitted().sink(end_by_token()); // of a stop string
  ignoring.edge.executor->run();
  EXPECT_EQ(ignoring.reply().at("choices").at(0).at("logprobs").at("content").as_array().size(), 2U);
}

TEST(completion_session, a_completions_scores_end_with_the_token_that_ended_it) {
  conversation c;
  c.complete(R"({"prompt":"x","logprobs":0})");
  c.submitted().sink(end_by_token());
  c.edge.executor->run();
  EXPECT_EQ(c.reply().at("choices").at(0).at("logprobs").at("tokens").as_array().size(), 2U)
      << "evaluation tools count on it";
}

TEST(completion_session, the_end_of_the_server_is_the_last_event) {
  conversation streamed;
  streamed.complete(R"({"prompt":"x","stream":true})");
  streamed.tokens("ab");
  streamed.session->on_shutdown();
  EXPECT_EQ(json::parse(streamed.channel->data().back()).at("error").at("code"), "draining");
  EXPECT_TRUE(streamed.channel->finished);
  EXPECT_TRUE(streamed.submitted().cancelled);
  conversation whole;
  whole.complete(R"({"prompt":"x"})");
  whole.tokens("ab");
  whole.session->on_shutdown();
  EXPECT_EQ(whole.channel->replied.value().status, 503);
}

TEST(completion_session, a_refusal_before_the_first_token_is_a_status) {
  conversation c;
  c.complete(R"({"prompt":"a","stream":true})");
  c.edge.engine.fail(1, errc::queue_full);
  c.edge.executor->run();
  EXPECT_EQ(c.channel->replied->status, 429);
  EXPECT_EQ(header_of(c.channel->replied->headers, "Retry-After"), "1");
  EXPECT_FALSE(c.channel->streaming);
}

TEST(completion_session, a_failure_after_the_first_token_is_an_event) {
  conversation c;
  c.complete(R"({"prompt":"a","stream":true})");
  c.tokens("x");
  c.edge.engine.fail(1, errc::device_lost);
  c.edge.executor->run();
  EXPECT_FALSE(c.channel->replied);
  EXPECT_EQ(json::parse(c.channel->data().back()).at("error").at("code"), "device_lost");
  EXPECT_TRUE(c.channel->finished);
}

TEST(completion_session, one_failed_choice_ends_the_others) {
  conversation c;
  c.complete(R"({"prompt":"a","n":2})");
  c.edge.engine.fail(1, errc::pool_full);
  c.edge.executor->run();
  EXPECT_EQ(c.channel->replied->status, 503);
  EXPECT_TRUE(c.submitted(2).cancelled);
}

TEST(completion_session, a_client_that_leaves_cancels_its_generation) {
  conversation c;
  c.complete(R"({"prompt":"a","stream":true})");
  c.tokens("x");
  c.session->on_disconnect();
  EXPECT_TRUE(c.submitted().cancelled);
  EXPECT_EQ(c.edge.metrics.disconnect_cancels, 1U);
  c.end(finish_reason::cancelled); // late events have no receiver
  EXPECT_EQ(c.edge.metrics.open_requests, 0U);
}

TEST(completion_session, many_choices_reach_the_engine_over_several_turns) {
  conversation c;
  c.complete(R"({"prompt":"a","n":128})");
  EXPECT_LE(c.edge.engine.submissions.size(), 8U) << "other sessions of the thread wait meanwhile";
  while (c.edge.executor->num_waiting() > 0) {
    const auto before = c.edge.engine.submissions.size();
    c.edge.executor->run_one();
    EXPECT_LE(c.edge.engine.submissions.size(), before + 8);
  }
  ASSERT_EQ(c.edge.engine.submissions.size(), 128U);
  for (std::uint64_t id = 1; id <= 128; ++id) {
    EXPECT_EQ(c.submitted(id).request.sampling.choice_index, id - 1);
    EXPECT_FALSE(c.channel->replied);
    c.end(finish_reason::stop, id);
  }
  EXPECT_EQ(c.reply().at("choices").as_array().size(), 128U);
}

TEST(completion_session, a_refused_choice_keeps_the_later_ones_from_the_engine) {
  conversation c;
  c.complete(R"({"prompt":"a","n":128})");
  c.edge.engine.fail(1, errc::invalid_argument);
  c.edge.executor->run();
  EXPECT_EQ(c.channel->replied.value().status, 400);
  EXPECT_LE(c.edge.engine.submissions.size(), 16U);
  EXPECT_EQ(c.edge.metrics.open_requests, 0U);
}

TEST(completion_session, a_client_that_leaves_between_turns_of_submission_starts_no_more) {
  conversation c;
  c.complete(R"({"prompt":"a","n":128,"stream":true})");
  const auto before = c.edge.engine.submissions.size();
  c.session->on_disconnect();
  c.edge.executor->run();
  EXPECT_EQ(c.edge.engine.submissions.size(), before);
  for (const auto& [id, submission] : c.edge.engine.submissions) EXPECT_TRUE(submission.cancelled) << id;
  EXPECT_EQ(c.edge.metrics.open_requests, 0U);
}

TEST(completion_session, a_client_that_leaves_while_its_request_is_prepared_starts_nothing) {
  conversation c;
  c.session->on_disconnect();
  c.complete(R"({"prompt":"a"})");
  EXPECT_TRUE(c.edge.engine.submissions.empty());
}

TEST(completion_session, a_silent_stream_shows_a_sign_of_life) {
  conversation c;
  c.complete(R"({"prompt":"a","stream":true})");
  c.session->on_idle();
  EXPECT_TRUE(c.channel->streaming);
  EXPECT_EQ(c.channel->bytes, ":\n\n");
}

TEST(completion_session, token_ids_and_rounds_are_shown_when_asked) {
  conversation c;
  c.complete(R"({"prompt":[97],"stream":true,"return_token_ids":true})");
  c.tokens("x");
  const auto first = json::parse(c.channel->data().at(0)).at("choices").at(0).as_object();
  EXPECT_EQ(first.at("token_ids").at(0).as_int64(), 'x');
  EXPECT_EQ(first.at("prompt_token_ids").at(0).as_int64(), 97);
  c.tokens("y");
  EXPECT_FALSE(
      json::parse(c.channel->data().at(1)).at("choices").at(0).as_object().contains("prompt_token_ids"));
}

TEST(completion_session, measures_gaps_by_token) {
  conversation c;
  c.complete(R"({"prompt":"a","stream":true})");
  c.edge.now += std::chrono::milliseconds(30);
  c.tokens("x");
  c.edge.now += std::chrono::milliseconds(40);
  c.tokens("abcd"); // four tokens, 10 ms each
  const auto& metrics = c.edge.metrics.of("bytes");
  EXPECT_DOUBLE_EQ(metrics.first_token.sum(), 0.03);
  EXPECT_EQ(metrics.token_gap.cumulative().back(), 4U);
  EXPECT_DOUBLE_EQ(metrics.token_gap.sum(), 0.04);
}

TEST(completion_session, measures_the_way_from_commit_to_write) {
  conversation c;
  c.complete(R"({"prompt":"a","stream":true})");
  const auto committed = [&](std::chrono::milliseconds ago) {
    token_event event;
    event.tokens = {token_id{'x'}};
    event.text = "x";
    event.committed_at = c.edge.now - ago;
    c.submitted().sink(event);
    c.edge.executor->run();
  };
  c.edge.now += std::chrono::seconds(1);
  committed(std::chrono::milliseconds(2));
  c.channel->full = true;
  committed(std::chrono::milliseconds(300)); // waits for the client, which is not counted
  const auto& delays = c.edge.metrics.of("bytes").commit_to_write;
  EXPECT_EQ(delays.cumulative().back(), 1U);
  EXPECT_DOUBLE_EQ(delays.sum(), 0.002);
}

TEST(completion_session, choices_of_a_whole_reply_share_the_text_of_their_prompt) {
  conversation c;
  const std::string prompt(50, 'p');
  c.complete(R"({"prompt":")" + prompt + R"(","echo":true,"n":2,"max_tokens":3})");
  for (const std::uint64_t id : {1U, 2U}) c.end(finish_reason::stop, id);
  const auto reply = c.reply();
  for (const auto& choice : reply.at("choices").as_array()) EXPECT_EQ(choice.at("text").as_string(), prompt);
  const auto prepared = prepare_completion(c.edge.context, {}, R"({"prompt":"abc","echo":true,"n":2})");
  ASSERT_TRUE(prepared);
  EXPECT_EQ(prepared->prompt_texts.size(), 1U);
}

TEST(completion_session, choices_share_prompt_and_prediction) {
  conversation c;
  c.complete(R"({"prompt":"ab","n":3,"prediction":{"type":"content","content":"xyz"},"logit_bias":{"5":1}})");
  const auto& first = c.submitted(1).request;
  const auto& last = c.submitted(3).request;
  EXPECT_TRUE(last.prompt.shares_with(first.prompt));
  EXPECT_TRUE(last.prediction.shares_with(first.prediction));
  EXPECT_TRUE(last.sampling.logit_bias.shares_with(first.sampling.logit_bias));
}

TEST(completion_session, a_prompt_is_read_no_further_than_the_context) {
  conversation c;
  c.complete(R"({"prompt":")" + std::string(10'000, 'a') + R"("})");
  ASSERT_TRUE(c.channel->replied);
  EXPECT_EQ(c.channel->replied->status, 400);
  EXPECT_NE(c.channel->replied->body.find("more than 64 tokens"), std::string::npos)
      << c.channel->replied->body;
  EXPECT_NE(c.channel->replied->body.find("context_length_exceeded"), std::string::npos);
  EXPECT_LE(c.edge.engine.bytes.num_encoded, 66U);
}

TEST(completion_session, a_key_that_fills_the_queue_leaves_places_to_another) {
  scripted_edge edge;
  edge.settings.set({key_ring({"a", "b"}), {}, edge.options.request_timeout, true, false});
  edge.engine.bytes.num_places = 8;
  std::vector<std::shared_ptr<completion_session>> sessions;
  const auto ask = [&](const std::string& tenant, int count) {
    auto channel = std::make_shared<recording_channel>();
    const caller who{tenant, "req"};
    sessions.push_back(std::make_shared<completion_session>(edge.context, edge.executor, channel, who));
    sessions.back()->start(
        prepare_completion(edge.context, who, R"({"prompt":"x","n":)" + std::to_string(count) + "}"));
    return channel->replied ? channel->replied->status : 0;
  };
  EXPECT_EQ(ask("b", 2), 0);
  EXPECT_EQ(ask("a", 7), 429) << "of 8 places 2 are kept for the other key";
  EXPECT_EQ(edge.engine.submissions.size(), 2U);
  EXPECT_EQ(ask("a", 6), 0);
  EXPECT_EQ(ask("a", 1), 429);
  sessions.at(2)->on_disconnect();
  EXPECT_EQ(ask("a", 6), 0) << "the places of a client that left come back";
}

} // namespace
} // namespace paceline::server
