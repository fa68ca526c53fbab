#include "protocol/wire/messages_events.hpp"

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <gtest/gtest.h>

namespace paceline::wire {
namespace {

namespace json = boost::json;
using kind = output_item::kind;

const message_identity identity{"msg_1", "m"};

message_ending ended(finish_reason finish, bool has_calls = false, std::string stop = "") {
  message_ending ending;
  ending.finish = finish;
  ending.has_calls = has_calls;
  ending.stop_sequence = std::move(stop);
  ending.used.prompt_tokens = 10;
  ending.used.cached_tokens = 4;
  ending.used.completion_tokens = 6;
  ending.used.reasoning_tokens = 2;
  return ending;
}

const output_items all{{kind::reasoning, "hm", 0, ""},       {kind::text, "a\n\"b\"", 0, ""},
                       {kind::call_begin, "f", 0, "call_1"}, {kind::call_arguments, R"({"x": [1,)", 0, ""},
                       {kind::call_arguments, "2]}", 0, ""}, {kind::call_end, "", 0, ""},
                       {kind::call_begin, "g", 1, "call_2"}, {kind::call_arguments, "{}", 1, ""},
                       {kind::call_end, "", 1, ""}};

output_items joined(const output_items& items) {
  output_items out;
  for (const auto& item : items)
    if (item.what == kind::call_begin || item.what == kind::call_end)
      out.push_back(item);
    else
      append(out, item.what, item.text, item.call);
  return out;
}

/// What a client makes of the events: their types, and the message.
struct client {
  std::vector<std::string> types;
  json::value message;
  std::vector<std::string> inputs; ///< JSON of the calls, by block

  void read(const message_event& event) {
    const auto body = json::parse(event.json);
    EXPECT_EQ(body.at("type").as_string(), event.type);
    EXPECT_EQ(event.json.find('\n'), std::string::npos);
    types.push_back(event.type);
    if (event.type == "message_start") message = body.at("message");
    auto& content = message.at("content").as_array();
    if (event.type == "content_block_start") {
      EXPECT_EQ(body.at("index").to_number<std::size_t>(), content.size());
      content.push_back(body.at("content_block"));
      inputs.emplace_back();
    } else if (event.type == "content_block_delta") {
      EXPECT_EQ(body.at("index").to_number<std::size_t>() + 1, content.size());
      const auto& delta = body.at("delta");
      auto& block = content.back().as_object();
      const std::string type(delta.at("type").as_string());
      if (type == "input_json_delta") {
        EXPECT_EQ(block.at("type"), "tool_use");
        inputs.back() += delta.at("partial_json").as_string();
      } else {
        const auto* name = type == "text_delta" ? "text" : "thinking";
        EXPECT_EQ(block.at("type").as_string(), name);
        block.at(name).as_string() += delta.at(name).as_string();
      }
    } else if (event.type == "content_block_stop") {
      EXPECT_EQ(body.at("index").to_number<std::size_t>() + 1, content.size());
      if (!inputs.back().empty()) content.back().as_object()["input"] = json::parse(inputs.back());
    } else if (event.type == "message_delta") {
      for (const auto& member : body.at("delta").as_object())
        message.as_object()[member.key()] = member.value();
      message.as_object()["usage"] = body.at("usage");
    }
  }
  void read(const std::vector<message_event>& events) {
    for (const auto& event : events) read(event);
  }
};

TEST(messages_events, a_whole_message_has_blocks_of_every_kind) {
  const auto message = json::parse(whole_message(identity, joined(all), ended(finish_reason::stop, true)));
  EXPECT_EQ(message, json::parse(R"({"id":"msg_1","type":"message","role":"assistant","model":"m","content":[
    {"type":"thinking","signature":"","thinking":"hm"},
    {"type":"text","text":"a\n\"b\""},
    {"type":"tool_use","id":"call_1","name":"f","input":{"x":[1,2]}},
    {"type":"tool_use","id":"call_2","name":"g","input":{}}],
    "stop_reason":"tool_use","stop_sequence":null,
    "usage":{"input_tokens":6,"cache_creation_input_tokens":0,"cache_read_input_tokens":4,"output_tokens":6,
             "output_tokens_details":{"thinking_tokens":2}}})"));
}

TEST(messages_events, the_stream_says_what_the_whole_message_says) {
  const auto ending = ended(finish_reason::stop, true);
  message_stream stream(identity);
  client reader;
  reader.read(stream.open(10));
  EXPECT_EQ(reader.message.at("usage").at("input_tokens"), 10);
  for (const auto& item : all) reader.read(stream.add({item}));
  reader.read(stream.close(ending));
  EXPECT_EQ(reader.message, json::parse(whole_message(identity, joined(all), ending)));
  const std::vector<std::string> types{
      "message_start",       "content_block_start", "content_block_delta", "content_block_stop",
      "content_block_start", "content_block_delta", "content_block_stop",  "content_block_start",
      "content_block_delta", "content_block_delta", "content_block_stop",  "content_block_start",
      "content_block_delta", "content_block_stop",  "message_delta",       "message_stop"};
  EXPECT_EQ(reader.types, types);
}

TEST(messages_events, deltas_of_one_kind_share_a_block_across_rounds) {
  message_stream stream(identity);
  client reader;
  reader.read(stream.open(1));
  for (const auto* text : {"a", "b", "c"}) reader.read(stream.add({{kind::text, text, 0, ""}}));
  reader.read(stream.close(ended(finish_reason::length)));
  EXPECT_EQ(reader.message.at("content"), json::parse(R"([{"type":"text","text":"abc"}])"));
  EXPECT_EQ(reader.message.at("stop_reason"), "max_tokens");
}

TEST(messages_events, an_empty_output_has_no_blocks) {
  message_stream stream(identity);
  client reader;
  reader.read(stream.open(1));
  EXPECT_TRUE(stream.add({}).empty());
  reader.read(stream.close(ended(finish_reason::stop)));
  EXPECT_TRUE(reader.message.at("content").as_array().empty());
  EXPECT_TRUE(
      json::parse(whole_message(identity, {}, ended(finish_reason::stop))).at("content").as_array().empty());
}

TEST(messages_events, tells_why_it_ended) {
  const auto reason = [](const message_ending& ending) {
    const auto message = json::parse(whole_message(identity, {}, ending));
    return json::serialize(message.at("stop_reason")) + json::serialize(message.at("stop_sequence"));
  };
  EXPECT_EQ(reason(ended(finish_reason::stop)), R"("end_turn"null)");
  EXPECT_EQ(reason(ended(finish_reason::stop, false, "END")), R"("stop_sequence""END")");
  EXPECT_EQ(reason(ended(finish_reason::stop, true)), R"("tool_use"null)");
  EXPECT_EQ(reason(ended(finish_reason::length, true)), R"("max_tokens"null)") << "the call may be cut";
}

TEST(messages_events, a_call_that_was_cut_has_an_empty_input_in_the_whole_message) {
  const output_items cut{{kind::call_begin, "f", 0, "call_1"}, {kind::call_arguments, R"({"x": )", 0, ""}};
  const auto message = json::parse(whole_message(identity, cut, ended(finish_reason::length, true)));
  EXPECT_EQ(message.at("content").at(0).at("input"), json::object());
}

TEST(messages_events, an_input_may_nest_deeper_than_a_body) {
  const auto input_of = [](std::size_t depth) {
    const auto arguments = R"({"x":)" + std::string(depth - 1, '[') + "1" + std::string(depth - 1, ']') + "}";
    const output_items items{{kind::call_begin, "f", 0, "call_1"},
                             {kind::call_arguments, arguments, 0, ""},
                             {kind::call_end, "", 0, ""}};
    const auto message = whole_message(identity, items, ended(finish_reason::stop, true));
    return message.find(arguments) != std::string::npos ? "whole" : "empty";
  };
  EXPECT_STREQ(input_of(33), "whole");
  EXPECT_STREQ(input_of(1024), "whole");
  EXPECT_STREQ(input_of(1025), "empty");
}

TEST(messages_events, errors_have_the_type_of_their_status) {
  const std::pair<int, const char*> cases[] = {
      {400, "invalid_request_error"}, {401, "authentication_error"},  {403, "permission_error"},
      {404, "not_found_error"},       {405, "invalid_request_error"}, {408, "timeout_error"},
      {413, "request_too_large"},     {429, "rate_limit_error"},      {500, "api_error"},
      {503, "overloaded_error"}};
  for (const auto& [status, type] : cases) {
    api_error failure;
    failure.status = status;
    failure.message = "why";
    EXPECT_EQ(to_message_error(failure),
              std::string(R"({"type":"error","error":{"type":")") + type + R"(","message":"why"}})");
  }
}

} // namespace
} // namespace paceline::wire
