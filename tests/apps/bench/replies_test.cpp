#include "apps/bench/replies.hpp"

#include <boost/json/parse.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::apps::bench {
namespace {

using testing::HasSubstr;
using namespace std::chrono_literals;

const time_point start{1s};

const workload_prompt& prompt() {
  static const workload_prompt two{{}, "ab", {token_id{3}, token_id{4}}};
  return two;
}

errand request() { return {.prompt = &prompt(), .drafter = "ngram", .draft_length = 8, .salt = "s"}; }

const std::string chunk_one =
    R"({"choices":[{"text":"a","token_ids":[5],"prompt_token_ids":[3,4],"finish_reason":null}]})";
const std::string chunk_two =
    R"({"choices":[{"text":"bc","token_ids":[6,7],"finish_reason":"length","paceline":{"rounds":[{},{}]}}]})";

std::string usage(int prompt_tokens, int completion_tokens) {
  return R"({"choices":[],"usage":{"prompt_tokens":)" + std::to_string(prompt_tokens) +
         R"(,"completion_tokens":)" + std::to_string(completion_tokens) +
         R"(},"metrics":{"speculative_decoding":{"num_spec_steps":2,"num_full_spec_steps":1,)"
         R"("num_draft_tokens":4,"num_accepted_draft_tokens":1,"acceptance_histogram":[1,1,0]}}})";
}

std::vector<stamped_event> stream(const std::vector<std::string>& data) {
  std::vector<stamped_event> out;
  for (const auto& each : data) out.push_back({start + out.size() * 1ms, each});
  return out;
}

std::string failure_of(const std::vector<std::string>& data) {
  const auto read = read_completion_stream(request(), stream(data));
  return read ? "" : read.error().message();
}

TEST(replies, a_stream_gives_tokens_text_and_when_they_came) {
  const auto read = read_completion_stream(request(), stream({chunk_one, chunk_two, usage(2, 3), "[DONE]"}));
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(read->text, "abc");
  EXPECT_EQ(read->tokens, (std::vector{token_id{5}, token_id{6}, token_id{7}}));
  ASSERT_EQ(read->arrivals.size(), 2U);
  EXPECT_EQ(read->arrivals[1].time, start + 1ms);
  EXPECT_EQ(read->arrivals[1].num_tokens, 2U);
  EXPECT_EQ(read->num_rounds, 2U);
  ASSERT_TRUE(read->speculation);
  EXPECT_EQ(read->speculation->num_full_rounds, 1U);
  EXPECT_EQ(read->speculation->acceptance_histogram.size(), 3U);
}

TEST(replies, a_stream_that_is_not_whole_or_miscounts_is_an_error) {
  EXPECT_THAT(failure_of({chunk_one, chunk_two, usage(2, 3)}), HasSubstr("cut short"));
  EXPECT_THAT(failure_of({chunk_one, usage(2, 1), "[DONE]"}), HasSubstr("without a reason"));
  EXPECT_THAT(failure_of({chunk_one, chunk_two, "[DONE]"}), HasSubstr("no usage"));
  EXPECT_THAT(failure_of({chunk_one, chunk_two, usage(2, 4), "[DONE]"}),
              HasSubstr("counts 4 tokens where 3 were"));
  EXPECT_THAT(failure_of({chunk_one, chunk_two, usage(9, 3), "[DONE]"}),
              HasSubstr("counts 9 prompt tokens where 2 were"));
  const auto other =
      R"({"choices":[{"text":"a","token_ids":[5],"prompt_token_ids":[3,9],"finish_reason":"stop"}]})";
  EXPECT_THAT(failure_of({other, usage(2, 1), "[DONE]"}), HasSubstr("other prompt tokens"));
  EXPECT_THAT(failure_of({chunk_one, R"({"error":{"message":"lost"}})"}), HasSubstr("lost"));
  EXPECT_THAT(failure_of({"{"}), HasSubstr("not JSON"));
}

TEST(replies, a_whole_reply_has_no_arrivals) {
  const auto read = read_completion(request(), R"({"choices":[{"message":{"content":"a"},"token_ids":[5],)"
                                               R"("finish_reason":"stop"}],"prompt_token_ids":[3,4],)"
                                               R"("usage":{"prompt_tokens":2,"completion_tokens":1}})");
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(read->text, "a");
  EXPECT_TRUE(read->arrivals.empty());
  EXPECT_FALSE(read->speculation);
}

TEST(replies, a_response_ends_with_its_last_event) {
  const std::string delta =
      R"({"type":"response.output_text.delta","sequence_number":4,"delta":"a","token_ids":[5]})";
  const std::string last =
      R"({"type":"response.incomplete","sequence_number":8,"response":)"
      R"({"status":"incomplete","error":null,"usage":{"input_tokens":2,"output_tokens":1}}})";
  EXPECT_FALSE(ends_response(delta));
  EXPECT_TRUE(ends_response(last));
  const auto read = read_response_stream(
      request(), stream({R"({"type":"response.created","response":{"error":null}})", delta, last}));
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(read->tokens, std::vector{token_id{5}});
  const auto refused = R"({"type":"error","status":400,"error":{"message":"too long"}})";
  EXPECT_TRUE(ends_response(refused));
  const auto failed = read_response_stream(request(), stream({refused}));
  ASSERT_FALSE(failed);
  EXPECT_THAT(failed.error().message(), HasSubstr("too long"));
}

TEST(replies, events_are_split_wherever_their_bytes_are_cut) {
  const std::string body = "data: {\"a\":1}\n\n:\n\nevent: x\ndata: {}\n\ndata: [DONE]\n\n";
  for (std::size_t cut = 0; cut <= body.size(); ++cut) {
    sse_splitter events;
    events.add(std::string_view(body).substr(0, cut), start);
    events.add(std::string_view(body).substr(cut), start + 1ms);
    const auto got = events.take();
    ASSERT_EQ(got.size(), 3U);
    EXPECT_EQ(got[0].data, "{\"a\":1}");
    EXPECT_EQ(got[1].data, "{}");
    EXPECT_EQ(got[2].data, "[DONE]");
    EXPECT_EQ(got[0].time, cut >= 15 ? start : start + 1ms);
  }
}

TEST(replies, a_request_says_what_the_arm_is) {
  const auto body = boost::json::parse(completion_body(request(), true)).as_object();
  EXPECT_EQ(body.at("prompt"), "ab");
  EXPECT_EQ(body.at("cache_salt"), "s");
  EXPECT_EQ(body.at("user"), "s");
  EXPECT_EQ(body.at("speculation"), boost::json::parse(R"({"drafter":"ngram","draft_length":8})"));
  EXPECT_TRUE(body.at("stream_options").at("include_usage").as_bool());
  EXPECT_FALSE(response_frame(request())); // a plain prompt
}

} // namespace
} // namespace paceline::apps::bench
