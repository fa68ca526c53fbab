#include "protocol/wire/client_requests.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace paceline::wire::response_request_test {
namespace {

parsed<response_request> parse(const std::string& members) {
  return parse_response_request("{" + members + "}", {});
}

TEST(response_request, reads_text_and_items) {
  EXPECT_EQ(parse(R"("input":"hi")")->input.at(0).content, "hi");
  const auto request = parse(R"("input":[
    {"role":"user","content":"a"},
    {"type":"message","role":"assistant","content":[{"type":"output_text","text":"b","annotations":[]}],"id":"m","status":"completed"},
    {"type":"function_call","call_id":"c","name":"f","arguments":"{}"},
    {"type":"function_call_output","call_id":"c","output":[{"type":"input_text","text":"7"}]}])");
  ASSERT_TRUE(request) << request.failure().message;
  ASSERT_EQ(request->input.size(), 3U);
  EXPECT_EQ(request->input[1].content, "b");
  EXPECT_EQ(request->input[1].tool_calls.at(0).name, "f") << "the model wrote both in one turn";
  EXPECT_EQ(request->input[2].tool_call_id, "c");
}

TEST(response_request, names_ignored_members_of_objects) {
  const auto request = parse(
      R"("input":"x","reasoning":{"efort":"high"},"text":{"a":1,"format":{"type":"json_object","b":1}},"structured_outputs":{"c":1})");
  ASSERT_TRUE(request) << request.failure().message;
  auto names = request->fields.ignored_fields;
  std::ranges::sort(names);
  EXPECT_EQ(names,
            (std::vector<std::string>{"reasoning.efort", "structured_outputs.c", "text.a", "text.format.b"}));
}

TEST(response_request, broken_arguments_of_an_earlier_call_are_an_empty_object) {
  const auto request = parse(R"("input":[{"type":"function_call","name":"f","arguments":"x"}])");
  ASSERT_TRUE(request) << request.failure().message;
  EXPECT_EQ(request->input.at(0).tool_calls.at(0).arguments, "{}");
}

TEST(response_request, options_of_a_stream_need_no_stream_in_a_frame) {
  const auto frame = [](const std::string& members) {
    return parse_client_frame(R"({"type":"response.create","input":"x",)" + members + "}", {});
  };
  EXPECT_TRUE(
      std::holds_alternative<client_frame>(frame(R"("stream_options":{"include_obfuscation":false})")));
  EXPECT_TRUE(std::holds_alternative<refused_frame>(frame(R"("stream":false)")));
}

TEST(response_request, names_what_it_refuses) {
  const std::pair<const char*, const char*> cases[] = {
      {R"("model":"m")", "input"},
      {R"("input":7)", "input"},
      {R"("input":[7])", "input[0]"},
      {R"("input":[{"role":"robot","content":"x"}])", "input[0].role"},
      {R"("input":[{"type":"web_search_call"}])", "input[0].type"},
      {R"("input":[{"type":"reasoning"}])", "input"},
      {R"("input":[{"type":"item_reference"}])", "input[0].id"},
      {R"("input":[{"type":"item_reference","id":7}])", "input[0].id"},
      {R"("input":[{"id":7}])", "input[0].id"},
      {R"("input":[{"id":"msg_1","role":"user"}])", "input[0].content"},
      {R"("input":[{"id":"msg_1","content":"x"}])", "input[0].role"},
      {R"("input":[{"type":"reasoning","call_id":1}])", "input[0].call_id"},
      {R"("input":[{"type":"function_call","name":"f","content":[1]}])", "input[0].content[0]"},
      {R"("input":[{"role":"user","content":"x","output":1}])", "input[0].output"},
      {R"("input":[{"type":"function_call_output","call_id":"c"}])", "input[0].output"},
      {R"("input":[{"type":"function_call_output","call_id":"c","output":null}])", "input[0].output"},
      {R"("input":"x","background":true)", "background"},
      {R"("input":"x","conversation":"c")", "conversation"},
      {R"("input":"x","truncation":"auto")", "truncation"},
      {R"("input":"x","text":{"format":{"type":"xml"}})", "text.format.type"},
      {R"("input":"x","text":{"format":{"type":"json_schema"}})", "text.format.schema"},
      {R"("input":"x","reasoning":"low")", "reasoning"},
      {R"("input":"x","max_output_tokens":0)", "max_output_tokens"},
      {R"("input":"x","n":2)", "n"},
      {R"("input":"x","include":["file_search_call.results"])", "include"},
      {R"("input":"x","stream_id":"a")", "stream_id"},
      {R"("input":"x","paceline":{"token_ids":1})", "paceline.token_ids"},
      {R"("input":"x","paceline":{"resume":{"next_token":1}})", "paceline.resume.response_id"},
      {R"("input":"x","metadata":{"a":1})", "metadata"}};
  for (const auto& [members, param] : cases) {
    const auto request = parse(members);
    ASSERT_FALSE(request) << members;
    EXPECT_EQ(request.failure().param, param) << request.failure().message;
  }
  EXPECT_TRUE(parse(
      R"("input":"x","reasoning":{"effort":null},"text":{"format":{"type":"text"}},"truncation":"disabled")"));
}

TEST(response_request, gives_thoughts_to_the_turn_behind_them) {
  const std::string thought =
      R"({"type":"reasoning","id":"rs_1","summary":[],"content":[{"type":"reasoning_text","text":"%"}]},)";
  const auto thoughts = [&](char name) {
    auto out = thought;
    return out.replace(out.find('%'), 1, 1, name);
  };
  const auto request =
      parse("\"input\":[" + thoughts('a') + R"({"role":"user","content":"x"},)" + thoughts('b') +
            R"({"role":"assistant","content":"y"},)" + thoughts('c') +
            R"({"type":"function_call","name":"f"},)" + thoughts('d') + thoughts('e') +
            R"({"type":"function_call_output","output":"z"},)" + thoughts('f') + thoughts('g') +
            R"({"role":"assistant","content":"w"},)" + thoughts('h') + R"({"role":"user","content":"v"}])");
  ASSERT_TRUE(request) << request.failure().message;
  ASSERT_EQ(request->input.size(), 5U);
  EXPECT_EQ(request->input[0].reasoning, "");
  EXPECT_EQ(request->input[1].reasoning, "b\n\nc") << "the call goes on with the text";
  EXPECT_EQ(request->input[1].tool_calls.size(), 1U);
  EXPECT_EQ(request->input[3].reasoning, "f\n\ng");
  EXPECT_EQ(request->input[3].content, "w");
}

TEST(response_request, references_become_the_items_that_they_name) {
  const item_lookup find = [](const std::string& id) -> std::optional<chat_message> {
    chat_message turn;
    turn.role = "assistant";
    if (id == "rs_1") turn.reasoning = "hm";
    if (id == "msg_1") turn.content = "Look:";
    if (id == "fc_1") turn.tool_calls = {{"call_1", "f", "{}"}};
    return id == "unknown" ? std::nullopt : std::optional(turn);
  };
  const auto refer = [](const std::string& id) { return R"({"type":"item_reference","id":")" + id + "\"}"; };
  const std::string result = R"({"type":"function_call_output","call_id":"call_1","output":"7"})";
  const auto input = [&](const std::string& items) { return *parse("\"input\":[" + items + "]"); };
  auto request = input(R"({"role":"user","content":"a"},)" + refer("rs_1") + "," + refer("msg_1") + "," +
                       refer("fc_1") + "," + result);
  EXPECT_FALSE(resolve_references(request, 1000, find));
  const std::vector<chat_message> turns{{"user", "a", "", {}, ""},
                                        {"assistant", "Look:", "", {{"call_1", "f", "{}"}}, "", "hm"},
                                        {"tool", "7", "", {}, "call_1"}};
  EXPECT_EQ(request.input, turns) << "as if they had been repeated";
  EXPECT_TRUE(request.references.empty());
  auto without_type = input(R"({"role":"user","content":"a"},{"id":"msg_1"})");
  EXPECT_FALSE(resolve_references(without_type, 1000, find));
  EXPECT_EQ(without_type.input.at(1).content, "Look:");

  auto unknown = input(result + "," + refer("unknown"));
  const auto missing = resolve_references(unknown, 1000, find);
  ASSERT_TRUE(missing);
  EXPECT_EQ(missing->status, 404);
  EXPECT_EQ(missing->param, "input[1].id");
  auto thoughts = input(refer("rs_1"));
  EXPECT_EQ(resolve_references(thoughts, 1000, find).value().param, "input") << "there is no prompt";
  auto many = input(refer("msg_1") + "," + refer("msg_1"));
  EXPECT_EQ(resolve_references(many, 9, find).value().param, "input[1].id") << "together they are too long";
}

TEST(response_request, drops_thoughts_without_text) {
  const auto request =
      parse(R"("input":[{"role":"user","content":"a"},{"type":"reasoning","id":"rs_1","summary":[]},
    {"type":"function_call","name":"f"},{"type":"function_call","name":"g"}])");
  ASSERT_TRUE(request) << request.failure().message;
  ASSERT_EQ(request->input.size(), 2U);
  EXPECT_EQ(request->input[1].tool_calls.size(), 2U);
}

TEST(response_request, options_of_our_own_are_off_by_default) {
  const auto plain = parse(R"("input":"x")");
  EXPECT_FALSE(plain->fields.return_token_ids || plain->fields.trace || plain->options.resumable ||
               plain->options.resume);
  const auto all = parse(
      R"("paceline":{"token_ids":true,"trace":true,"resumable":true,"resume":{"response_id":"r","next_token":3}})");
  ASSERT_TRUE(all) << all.failure().message;
  EXPECT_TRUE(all->fields.return_token_ids && all->fields.trace && all->options.resumable);
  EXPECT_EQ(all->options.resume->next_token, 3U);
}

TEST(client_frame, creates_in_a_lane) {
  const auto frame =
      parse_client_frame(R"({"type":"response.create","stream_id":"a","input":"x","generate":false})", {});
  const auto& create = std::get<client_frame>(frame);
  EXPECT_EQ(create.stream_id, "a");
  EXPECT_FALSE(create.create.generate);
  EXPECT_TRUE(create.create.fields.stream);
}

TEST(client_frame, a_refused_frame_keeps_its_lane) {
  const auto frame =
      parse_client_frame(R"({"type":"response.create","stream_id":"a","input":"x","temperature":3})", {});
  const auto& refused = std::get<refused_frame>(frame);
  EXPECT_EQ(refused.stream_id, "a");
  EXPECT_EQ(refused.failure.param, "temperature");
}

TEST(client_frame, may_say_that_it_is_streamed) {
  const auto frame = parse_client_frame(R"({"type":"response.create","input":"x","stream":true})", {});
  ASSERT_TRUE(std::holds_alternative<client_frame>(frame));
  EXPECT_TRUE(std::get<client_frame>(frame).create.fields.stream);
  const auto refused = parse_client_frame(R"({"type":"response.create","input":"x","stream":false})", {});
  EXPECT_EQ(std::get<refused_frame>(refused).failure.param, "stream");
}

TEST(client_frame, refuses_other_frames) {
  for (const auto* text : {"{}", "x", R"({"type":"session.update"})", R"({"type":"response.cancel"})",
                           R"({"type":"response.create","input":"x","stream":false})",
                           R"({"type":"response.create","input":"x","stream_id":""})"})
    EXPECT_TRUE(std::holds_alternative<refused_frame>(parse_client_frame(text, {}))) << text;
}

} // namespace
} // namespace paceline::wire::response_request_test
