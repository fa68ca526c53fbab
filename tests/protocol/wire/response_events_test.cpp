#include "protocol/wire/response_events.hpp"

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <gtest/gtest.h>

#include <algorithm>

namespace paceline::wire::response_events_test {
namespace {

namespace json = boost::json;

response_request request_of(const std::string& members) {
  return *parse_response_request("{\"input\":\"x\"" + members + "}", {});
}

std::vector<std::string> types(const std::vector<response_event>& events) {
  std::vector<std::string> names;
  for (const auto& event : events) names.push_back(event.type);
  return names;
}

std::string spell(token_id token) { return "t" + to_string(token); }

const response_identity identity{"resp_1", "msg_1", "lane", 17, "m"};

TEST(response_narrator, tells_a_response_in_the_order_of_the_protocol) {
  response_narrator narrator(identity, request_of(""), spell);
  EXPECT_EQ(types(narrator.open()),
            (std::vector<std::string>{"response.created", "response.in_progress",
                                      "response.output_item.added", "response.content_part.added"}));
  const auto delta = narrator.delta({as_text("hi"), {token_id{1}, token_id{2}}, {}}).front();
  EXPECT_EQ(
      delta.json,
      R"({"type":"response.output_text.delta","sequence_number":4,"stream_id":"lane","item_id":"msg_1",)"
      R"("output_index":0,"content_index":0,"delta":"hi","logprobs":[]})");
  EXPECT_EQ(delta.end_token, 2U);
  response_outcome outcome;
  outcome.finish = finish_reason::stop;
  outcome.used = {3, 2, 0, 0, 0};
  const auto ending = narrator.close(outcome);
  EXPECT_EQ(types(ending),
            (std::vector<std::string>{"response.output_text.done", "response.content_part.done",
                                      "response.output_item.done", "response.completed"}));
  const auto last = json::parse(ending.back().json).as_object();
  EXPECT_EQ(last.at("sequence_number").as_int64(), 8);
  const auto& response = last.at("response").as_object();
  EXPECT_EQ(response.at("status"), "completed");
  EXPECT_EQ(response.at("output").at(0).at("content").at(0).at("text"), "hi");
  EXPECT_EQ(response.at("usage").at("output_tokens").as_int64(), 2);
  EXPECT_TRUE(response.at("error").is_null());
}

TEST(response_narrator, every_event_is_json_with_its_type_number_and_lane) {
  response_narrator narrator(
      identity,
      request_of(R"(,"top_logprobs":1,"metadata":{"a":"b"},"tools":[{"type":"function","name":"f"}])"),
      spell);
  auto events = narrator.open();
  events.push_back(
      narrator.delta({as_text("a\n"), {token_id{1}}, {{token_id{1}, -0.5F, {{token_id{1}, -0.5F}}}}})
          .front());
  events.push_back(narrator.round({}));
  for (auto& event : narrator.close({finish_reason::length, std::nullopt, {}, generation_metrics{}}))
    events.push_back(event);
  for (std::size_t i = 0; i < events.size(); ++i) {
    const auto object = json::parse(events[i].json).as_object();
    EXPECT_EQ(object.at("type").as_string(), events[i].type);
    EXPECT_EQ(object.at("sequence_number").to_number<std::size_t>(), i);
    EXPECT_EQ(object.at("stream_id"), "lane");
    EXPECT_EQ(events[i].json.find('\n'), std::string::npos);
  }
}

TEST(response_narrator, the_object_repeats_what_was_asked) {
  const std::string f = R"(,"tools":[{"type":"function","name":"f"}])";
  const auto object = [](const std::string& members) {
    return json::parse(response_narrator(identity, request_of(members), spell).object().text()).as_object();
  };
  EXPECT_EQ(json::serialize(object("").at("text")), R"({"format":{"type":"text"},"verbosity":"medium"})");
  EXPECT_TRUE(object("").at("user").is_null());
  EXPECT_EQ(object(R"(,"user":"ann")").at("user"), "ann");
  for (const char* field : {"safety_identifier", "prompt_cache_key"}) {
    EXPECT_TRUE(object("").at(field).is_null());
    EXPECT_EQ(object(",\"" + std::string(field) + R"(":"ann")").at(field), "ann");
  }
  EXPECT_TRUE(object("").at("reasoning").at("effort").is_null());
  EXPECT_EQ(object(R"(,"reasoning":{"effort":"low"})").at("reasoning").at("effort"), "low");
  EXPECT_EQ(object("").at("tool_choice"), "auto");
  EXPECT_EQ(object(f + R"(,"tool_choice":"auto")").at("tool_choice"), "auto");
  const auto none = object(f + R"(,"tool_choice":"none")");
  EXPECT_EQ(none.at("tool_choice"), "none");
  EXPECT_EQ(none.at("tools").as_array().size(), 1U);
  EXPECT_EQ(object(f + R"(,"tool_choice":"required")").at("tool_choice"), "required");
  EXPECT_EQ(json::serialize(object(f + R"(,"tool_choice":{"type":"function","name":"f"})").at("tool_choice")),
            R"({"type":"function","name":"f"})");
  EXPECT_EQ(json::serialize(
                object(R"(,"text":{"format":{"type":"json_schema", "name":"n", "schema":{"type": "null"}}})")
                    .at("text")),
            R"({"format":{"type":"json_schema","name":"n","schema":{"type":"null"}},"verbosity":"medium"})");
}

TEST(response_narrator, events_share_what_they_repeat_of_a_long_request) {
  const std::string instructions(100'000, 'i');
  const std::string tools =
      R"([{"type":"function","name":"f","description":")" + std::string(50'000, 'd') + "\"}]";
  response_narrator narrator(
      identity, request_of(R"(,"instructions":")" + instructions + R"(","tools":)" + tools), spell);
  auto events = narrator.open();
  narrator.delta({as_text("hi"), {token_id{1}}, {}});
  for (auto& event : narrator.close({finish_reason::stop, std::nullopt, {}, std::nullopt}))
    events.push_back(event);
  std::size_t own = 0;
  std::vector<const void*> read;
  for (const auto& event : events) {
    own += event.json.size();
    if (!event.long_json) continue;
    const auto source = event.long_json->open();
    own += source->num_bytes();
    for (const auto& part : source->shared()) read.push_back(part.identity);
    const auto response = json::parse(event.long_json->text()).at("response").as_object();
    EXPECT_EQ(response.at("instructions").as_string(), instructions);
    EXPECT_GT(json::serialize(response.at("tools")).size(), 50'000U);
  }
  EXPECT_LT(own, 10'000U);
  ASSERT_EQ(read.size(), 4U) << "created, in progress; completed, with the output";
  EXPECT_EQ(read[0], read[1]);
  EXPECT_EQ(read[0], read[3]);
}

TEST(response_narrator, endings_say_why) {
  const auto ending = [](finish_reason finish, std::optional<api_error> failure) {
    response_narrator narrator(identity, request_of(""), spell);
    narrator.open();
    const auto events = narrator.close({finish, std::move(failure), {}, std::nullopt, 1234});
    return std::pair{events.back().type, json::parse(events.back().json).at("response").as_object()};
  };
  const auto [length_type, length] = ending(finish_reason::length, std::nullopt);
  EXPECT_EQ(length_type, "response.incomplete");
  EXPECT_EQ(length.at("incomplete_details").at("reason"), "max_output_tokens");
  EXPECT_TRUE(length.at("completed_at").is_null());
  const auto [complete_type, complete] = ending(finish_reason::stop, std::nullopt);
  EXPECT_EQ(complete_type, "response.completed");
  EXPECT_EQ(complete.at("completed_at"), 1234);
  const auto [cancel_type, cancelled] = ending(finish_reason::cancelled, std::nullopt);
  EXPECT_EQ(cancel_type, "response.incomplete");
  EXPECT_EQ(cancelled.at("status"), "cancelled");
  EXPECT_TRUE(cancelled.at("incomplete_details").is_null());
  const auto [failure_type, failed] =
      ending(finish_reason::error, from_error(error{errc::device_lost, "gpu 0x1234"}));
  EXPECT_EQ(failure_type, "response.failed");
  EXPECT_EQ(failed.at("error").at("code"), "server_error");
  EXPECT_EQ(failed.at("error").at("paceline_code"), "device_lost");
  const auto [limit_type, limited] =
      ending(finish_reason::error, from_error(error{errc::queue_full, "full"}));
  EXPECT_EQ(limited.at("error").at("code"), "rate_limit_exceeded");
  const auto [bad_type, bad] = ending(finish_reason::error, from_error(error{errc::invalid_argument, "bad"}));
  EXPECT_EQ(bad.at("error").at("code"), "invalid_prompt");
  for (const auto code : {errc::deadline_exceeded, errc::cancelled}) {
    const auto [type, late] = ending(finish_reason::error, from_error(error{code, "late"}));
    EXPECT_EQ(late.at("error").at("code"), "server_error") << "it is not the prompt's fault";
  }
  EXPECT_EQ(failed.at("error").at("message").as_string().find("0x"), std::string::npos);
}

TEST(response_narrator, a_call_without_an_end_is_an_incomplete_item) {
  using item = output_item::kind;
  const output_items begun{{item::call_begin, "f", 0, "call_1"}, {item::call_arguments, R"({"a")", 0, ""}};
  const auto told = [&](const output_items& rest, finish_reason finish) {
    response_narrator narrator(identity, request_of(""), spell, false);
    narrator.open();
    narrator.delta({begun, {token_id{1}}, {}});
    auto events = narrator.delta({rest, {token_id{2}}, {}});
    for (auto& event : narrator.close({finish, std::nullopt, {}, std::nullopt})) events.push_back(event);
    std::string statuses;
    for (const auto& event : events)
      if (event.type == "response.output_item.done")
        statuses += std::string(json::parse(event.json).at("item").at("status").as_string()) + " ";
    const auto object = json::parse(narrator.object().text()).as_object();
    const auto& first = object.at("output").at(0).at("status").as_string();
    EXPECT_TRUE(statuses.starts_with(std::string(first))) << statuses << first;
    return statuses + std::string(object.at("status").as_string());
  };
  const output_items end{{item::call_arguments, ":1}", 0, ""}, {item::call_end, "", 0, ""}};
  EXPECT_EQ(told({}, finish_reason::length), "incomplete incomplete");
  EXPECT_EQ(told({}, finish_reason::stop), "incomplete completed") << "a stop string has cut it";
  EXPECT_EQ(told(as_text("x"), finish_reason::stop), "incomplete completed completed");
  EXPECT_EQ(told(end, finish_reason::stop), "completed completed");
  EXPECT_EQ(told(end, finish_reason::length), "completed incomplete");
}

TEST(response_narrator, positions_and_ids_are_told_when_asked) {
  response_narrator narrator(identity, request_of(R"(,"paceline":{"token_ids":true})"), spell);
  narrator.open();
  narrator.delta({as_text("a"), {token_id{4}}, {}});
  EXPECT_NE(narrator.delta({as_text("b"), {token_id{5}, token_id{6}}, {}})
                .front()
                .json.find(R"("token_index":1,"token_ids":[5,6])"),
            std::string::npos);
  narrator.close({finish_reason::stop, std::nullopt, {}, std::nullopt});
  EXPECT_NE(narrator.object().text().find(R"("paceline":{"token_ids":[4,5,6]})"), std::string::npos);
}

TEST(response_narrator, a_response_that_generates_nothing_has_no_output) {
  response_narrator narrator(identity, request_of(R"(,"generate":false)"), spell);
  EXPECT_EQ(narrator.open().size(), 2U);
  const auto ending = narrator.close({finish_reason::stop, std::nullopt, {}, std::nullopt});
  ASSERT_EQ(ending.size(), 1U);
  EXPECT_TRUE(json::parse(ending[0].json).at("response").at("output").as_array().empty());
}

/// All events of a response of `num_deltas` tokens with log-probabilities, closed.
std::vector<response_event> long_response(response_narrator& narrator, int num_deltas) {
  narrator.open();
  for (int i = 0; i < num_deltas; ++i)
    narrator.delta({as_text("\"é€\n"),
                    {token_id{i}},
                    {{token_id{i}, -0.5F, {{token_id{i}, -0.5F}, {token_id{i + 1}, -2}}}}});
  response_outcome outcome;
  outcome.finish = finish_reason::stop;
  return narrator.close(outcome);
}

TEST(response_narrator, a_long_output_is_kept_once_for_all_events_that_repeat_it) {
  response_narrator narrator(
      identity,
      request_of(
          R"(,"top_logprobs":2,"include":["message.output_text.logprobs"],"paceline":{"token_ids":true})"),
      spell);
  const auto events = long_response(narrator, 5000);
  ASSERT_EQ(events.size(), 4U);
  for (const auto& event : events) {
    ASSERT_TRUE(event.long_json && event.json.empty()) << event.type;
    EXPECT_LT(event.num_bytes(), 200'000U);
  }
  const auto text = json::parse(events[0].long_json->text()).as_object();
  EXPECT_EQ(text.at("text").as_string().size(), 5000U * 7);
  EXPECT_EQ(text.at("logprobs").as_array().size(), 5000U);
  EXPECT_EQ(text.at("logprobs").at(4999).at("top_logprobs").at(1).at("token"), "t5000");
  const auto part = json::parse(events[1].long_json->text()).at("part").as_object();
  EXPECT_EQ(part.at("text"), text.at("text"));
  EXPECT_EQ(part.at("logprobs"), text.at("logprobs"));
  const auto item = json::parse(events[2].long_json->text()).at("item").as_object();
  EXPECT_EQ(item.at("content").at(0), json::value(part));
  const auto last = json::parse(events[3].long_json->text()).at("response").as_object();
  EXPECT_EQ(last.at("output").at(0), json::value(item));
  EXPECT_EQ(last.at("paceline").at("token_ids").as_array().size(), 5000U);
  EXPECT_EQ(json::parse(narrator.object().text()), json::value(last));
}

TEST(response_narrator, pieces_of_an_event_are_its_text) {
  response_narrator narrator(identity, request_of(R"(,"top_logprobs":2)"), spell);
  const auto events = long_response(narrator, 3000);
  for (const auto& event : events) {
    const auto whole = event.long_json.value().text();
    for (const std::size_t size : {1U, 1000U, 65536U}) {
      std::string joined;
      std::size_t largest = 0;
      for (const auto source = event.long_json->open("data: ", "\n\n"); !source->at_end();) {
        const auto piece = source->next(size);
        ASSERT_FALSE(piece.empty());
        largest = std::max(largest, piece.size());
        joined += piece;
      }
      EXPECT_EQ(joined, "data: " + whole + "\n\n");
      EXPECT_LE(largest, size + (32U << 10U)); // one step more, escaped
    }
  }
}

} // namespace
} // namespace paceline::wire::response_events_test
