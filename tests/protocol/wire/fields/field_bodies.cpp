#include "tests/protocol/wire/fields/field_bodies.hpp"

#include <algorithm>
#include <cstdio>
#include <set>
#include <string_view>

namespace paceline::wire {

const std::map<request_kinds, std::string> smallest_requests = {
    {in::completions, R"("prompt":"x")"},
    {in::chat, R"("messages":[{"role":"user","content":"x"}])"},
    {in::responses, R"("input":"x")"},
    {in::frames, R"("type":"response.create","input":"x")"},
    {in::tokenize, R"("prompt":"x")"},
    {in::detokenize, R"("tokens":[1])"},
    {in::messages, R"("max_tokens":4,"messages":[{"role":"user","content":"x"}])"},
    {in::count_tokens, R"("messages":[{"role":"user","content":"x"}])"},
};

namespace {

/// /tokenize reads the fields of conversations if it has no text.
std::string beginning(const field_spec& row, request_kinds kind) {
  const bool is_of_conversation = (row.where & in::chat) != 0 || row.name == "messages";
  return smallest_requests.at(kind == in::tokenize && is_of_conversation ? in::chat : kind);
}

/// Where the fields of an object stand: % is replaced by the field.
const std::map<std::string_view, std::string> places = {
    {"", "%"},
    {"speculation", R"("speculation":{%})"},
    {"prediction", R"("prediction":{"type":"content","content":"x",%})"},
    {"prediction.content[]", R"("prediction":{"type":"content","content":[{"type":"text","text":"x",%}]})"},
    {"stream_options", R"("stream":true,"stream_options":{%})"},
    {"paceline", R"("paceline":{%})"},
    {"paceline.resume", R"("paceline":{"resume":{"response_id":"r",%}})"},
    {"chat_template_kwargs", R"("chat_template_kwargs":{%})"},
    {"response_format", R"("response_format":{"type":"json_object",%})"},
    {"response_format.json_schema",
     R"("response_format":{"type":"json_schema","json_schema":{"schema":{},%}})"},
    {"structured_outputs", R"("structured_outputs":{%})"},
    {"messages[]", R"("messages":[{"role":"assistant","content":"x",%}])"},
    {"messages[].content[]",
     R"("messages":[{"role":"user","content":[{"type":"text","text":"x","refusal":"x",%}]}])"},
    {"messages[].tool_calls[]",
     R"("messages":[{"role":"assistant","tool_calls":[{"function":{"name":"f"},%}]}])"},
    {"messages[].tool_calls[].function",
     R"("messages":[{"role":"assistant","tool_calls":[{"function":{"name":"f",%}}]}])"},
    {"tools[]", R"("tool_choice":"none","tools":[{"type":"function","name":"f",%}])"},
    {"tools[].function", R"("tool_choice":"none","tools":[{"type":"function","function":{"name":"f",%}}])"},
    {"input[]", R"("input":[{"role":"user","content":"x",%}])"},
    {"input[].content[]",
     R"("input":[{"role":"user","content":[{"type":"text","text":"x","refusal":"x",%}]}])"},
    {"text", R"("text":{%})"},
    {"reasoning", R"("reasoning":{%})"},
    {"text.format", R"("text":{"format":{"type":"json_object",%}})"},
};

/// The same in Anthropic's form of a chat, where it differs.
const std::map<std::string_view, std::string> message_places = {
    {"messages[]", R"("messages":[{"role":"assistant","content":"x",%},{"role":"user","content":"x"}])"},
    {"messages[].content[]",
     R"("messages":[{"role":"assistant","content":[{"type":"text","text":"x","name":"f","input":{},%}]},{"role":"user","content":"x"}])"},
    {"messages[].content[].content[]",
     R"("messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[{"type":"text","text":"x",%}]}]}])"},
    {"system[]", R"("system":[{"type":"text","text":"x",%}])"},
    {"tools[]", R"("tools":[{"name":"f","input_schema":{},%}])"},
    {"tool_choice", R"("tools":[{"name":"f","input_schema":{}}],"tool_choice":{"type":"auto","name":"f",%})"},
    {"thinking", R"("thinking":{"type":"enabled",%})"},
    {"metadata", R"("metadata":{%})"},
    {"output_config", R"("output_config":{%})"},
    {"output_config.format", R"("output_config":{"format":{"type":"json_schema","schema":{},%}})"},
};

/// The places of fields of the user's blocks.
const std::map<std::string, std::string> user_block_places = {
    {"messages[].content[].tool_use_id",
     R"("messages":[{"role":"user","content":[{"type":"tool_result",%}]}])"},
    {"messages[].content[].content",
     R"("messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t",%}]}])"},
};

/// What a field needs in the same object.
const std::map<std::string, std::string> companions = {
    {"beam_width", R"("use_beam_search":true)"},
    {"response_format.type", R"("json_schema":{"schema":{}})"},
    {"response_format.json_schema", R"("type":"json_schema")"},
    {"text.format.type", R"("schema":{})"},
    {"length_penalty", R"("use_beam_search":true)"},
    {"early_stopping", R"("use_beam_search":true)"},
    {"speculation.lenience", R"("rule":"lenient")"},
    {"speculation.epsilon", R"("rule":"typical")"},
    {"speculation.delta", R"("rule":"typical")"},
    {"top_logprobs", R"("logprobs":true)"},
    {"type", R"("response_id":"r")"},
    {"response_id", R"("type":"response.cancel")"},
    {"messages[].content[].refusal", R"("type":"refusal")"},
    {"messages[].refusal", R"("content":null)"},
    {"messages[].tool_call_id", R"("role":"tool")"},
    {"messages[].content[].thinking", R"("type":"thinking")"},
    {"input[].content[].refusal", R"("type":"refusal")"},
    {"input[].type", R"("name":"f","output":"x")"},
    {"input[].id", R"("type":"item_reference")"},
    {"input[].call_id", R"("type":"function_call","name":"f")"},
    {"input[].name", R"("type":"function_call","name":"f")"},
    {"input[].arguments", R"("type":"function_call","name":"f")"},
    {"input[].output", R"("type":"function_call_output")"},
    {"messages[].content[].id", R"("type":"tool_use")"},
    {"messages[].content[].name", R"("type":"tool_use")"},
    {"messages[].content[].input", R"("type":"tool_use")"},
};

/// Good values of fields for which the row does not imply them.
const std::map<std::string, std::vector<std::string>> examples = {
    {"prompt", {"\"x\"", "[\"x\",\"y\"]", "[1,2]", "[[1],[2,3]]"}},
    {"seed", {"-9223372036854775808", "-1", "0", "18446744073709551615"}},
    {"prediction.content", {"\"x\"", "[1,2]", "[]"}},
    {"stream", {"true"}},
    {"use_beam_search", {"false"}},
    {"early_stopping", {"true"}},
    {"background", {"false"}},
    {"tool_choice", {"\"auto\"", "\"none\""}},
    {"tools[].strict", {"true", "\"x\"", "[1]"}},
    {"metadata", {"{}", R"({"a":"b"})"}},
    {"messages[].tool_calls[].function.arguments", {"\"{}\"", "\"\""}},
    {"input[].arguments", {"\"{}\"", "\"\""}},
    {"best_of", {"1"}}, // the value of n
    {"input[].type",
     {"\"message\"", "\"function_call\"",
      "\"function_call_output\""}}, // of thoughts alone there is no prompt
    {"input[].content[].type",
     {"\"text\"", "\"input_text\"", "\"output_text\"", "\"refusal\""}}, // of messages
    {"messages[].content[].type", {"\"text\"", "\"input_text\"", "\"output_text\"", "\"refusal\""}},
};

/// The same in Anthropic's form of a chat, where they differ.
const std::map<std::string, std::vector<std::string>> message_examples = {
    {"tool_choice", {"null", R"({"type":"none"})"}},
    {"metadata", {"null", R"({"user_id":"ann"})"}},
    {"messages[].content[].type", // in a block of a result it is the user's
     {"\"text\"", "\"tool_use\"", "\"thinking\"", "\"redacted_thinking\""}},
};

/// Fields that are required in their place, though not everywhere.
const std::set<std::string> required_in_place = {"response_format.json_schema",
                                                 "prompt",
                                                 "messages",
                                                 "messages[].content",
                                                 "messages[].refusal",
                                                 "messages[].content[].text",
                                                 "messages[].content[].refusal",
                                                 "messages[].content[].name",
                                                 "messages[].content[].input",
                                                 "messages[].content[].tool_use_id",
                                                 "tools[].name",
                                                 "tools[].function",
                                                 "input",
                                                 "input[].id",
                                                 "input[].role",
                                                 "input[].content",
                                                 "input[].content[].type",
                                                 "input[].content[].text",
                                                 "input[].content[].refusal",
                                                 "input[].name",
                                                 "input[].output",
                                                 "response_id"};

std::string quoted(std::size_t num_bytes) { return std::string("\"").append(num_bytes, 'x').append("\""); }

std::string list_of(std::size_t count, const std::string& element) {
  std::string out = "[";
  for (std::size_t i = 0; i < count; ++i) out.append(i > 0 ? "," : "").append(element);
  return out + "]";
}

/// A number without an exponent.
std::string printed(double number) {
  char text[64];
  std::snprintf(text, sizeof text, "%.6f", number);
  return text;
}

constexpr std::int64_t longest_tested = 8192;

bool is_schema(const field_spec& row) { return row.schema == rows::json_schema_of_schemas; }

} // namespace

std::vector<std::string> good_values(const field_spec& row, request_kinds kind) {
  if (row.state == field_state::without_effect) return {R"({"x":1})", "1", "null"};
  if (row.state == field_state::refused)
    return row.neutral_text.empty() ? std::vector<std::string>{"null"}
                                    : std::vector<std::string>{std::string(row.neutral_text), "null"};
  const auto of_message = message_examples.find(path_of(row));
  if ((kind & in::all_messages) != 0 && of_message != message_examples.end()) return of_message->second;
  if (const auto found = examples.find(path_of(row));
      found != examples.end() && (row.name != "prompt" || row.type == field_type::other))
    return found->second;
  if (is_schema(row)) return {"{}", "true", R"({"type":"object"})", R"("{\"type\":\"object\"}")"};
  std::vector<std::string> out{"null"};
  if (row.required || required_in_place.count(path_of(row)) != 0) out.clear();
  switch (row.type) {
  case field_type::boolean:
    out.insert(out.end(), {"true", "false"});
    break;
  case field_type::integer:
    out.insert(out.end(), {std::to_string(row.least), std::to_string(row.most)});
    break;
  case field_type::number:
    out.push_back(printed(row.range.max));
    out.push_back(row.range.min_excluded ? "0.5" : printed(row.range.min));
    break;
  case field_type::text:
    for (const auto choice : row.choices) out.push_back('"' + std::string(choice) + '"');
    if (row.choices.empty())
      for (const auto size : {std::max<std::int64_t>(row.least, 1), std::min(row.most, longest_tested)})
        out.push_back(quoted(static_cast<std::size_t>(size)));
    break;
  case field_type::id_list:
    out.insert(out.end(), {"[]", "[0,2147483647]"});
    break;
  case field_type::text_or_list:
    out.insert(out.end(), {"\"x\"", list_of(static_cast<std::size_t>(row.most),
                                            quoted(static_cast<std::size_t>(row.most_bytes)))});
    break;
  case field_type::text_list:
    out.insert(out.end(), {"[]", list_of(static_cast<std::size_t>(row.most),
                                         quoted(static_cast<std::size_t>(row.most_bytes)))});
    break;
  case field_type::choice_list:
    for (const auto choice : row.choices) out.push_back("[\"" + std::string(choice) + "\"]");
    break;
  case field_type::number_map:
    out.insert(out.end(), {"{}", "[]", "{\"5\":" + printed(row.range.min) + "}",
                           "{\"5\":" + printed(row.range.max) + "}"});
    break;
  default: // objects are accepted with their fields, which have rows of their own
    break;
  }
  return out;
}

std::vector<std::string> bad_values(const field_spec& row) {
  if (row.state == field_state::without_effect || path_of(row) == "tools[].strict") return {};
  if (row.state == field_state::refused) return {R"({"x":1})", "\"high\""};
  if (is_schema(row)) return {"1", "[]", "\"x\""};
  std::vector<std::string> out{"{\"x\":1}"};
  const auto beyond = static_cast<std::size_t>(row.most) + 1;
  switch (row.type) {
  case field_type::boolean:
    out.insert(out.end(), {"1", "\"true\""});
    break;
  case field_type::integer:
    out.insert(out.end(), {std::to_string(row.least - 1), std::to_string(row.most + 1), "1.5", "true"});
    break;
  case field_type::number:
    out.insert(out.end(), {printed(row.range.max + 0.01), "\"1\"", "1e400",
                           printed(row.range.min_excluded ? row.range.min : row.range.min - 0.01)});
    break;
  case field_type::text:
    out.insert(out.end(), {"1", "[\"x\"]"});
    if (!row.choices.empty()) out.emplace_back("\"lucky\"");
    if (row.most <= longest_tested) out.push_back(quoted(beyond));
    if (row.least > 0) out.push_back(quoted(static_cast<std::size_t>(row.least) - 1));
    break;
  case field_type::object:
    return {"1", "[]", "\"x\""};
  case field_type::object_list:
    out.emplace_back("[1]");
    if (row.most <= longest_tested) out.push_back(list_of(beyond, "1"));
    break;
  case field_type::text_or_objects:
    out.insert(out.end(), {"1", "[1]"});
    if (row.most > 0 && row.most <= longest_tested) out.push_back(list_of(beyond, "1"));
    break;
  case field_type::id_list:
    out.insert(out.end(), {"\"x\"", "[-1]", "[2147483648]", "[\"x\"]"});
    if (row.most <= longest_tested) out.push_back(list_of(beyond, "1"));
    break;
  case field_type::text_or_list:
    out.insert(out.end(),
               {"1", "[1]", list_of(beyond, "\"x\""), quoted(static_cast<std::size_t>(row.most_bytes) + 1)});
    break;
  case field_type::text_list:
    out.insert(out.end(), {"1", "\"x\"", "[1]", list_of(beyond, "\"x\""),
                           "[" + quoted(static_cast<std::size_t>(row.most_bytes) + 1) + "]"});
    break;
  case field_type::choice_list:
    out.insert(out.end(), {"\"x\"", "[\"lucky\"]", list_of(beyond, '"' + std::string(row.choices[0]) + '"')});
    break;
  case field_type::number_map:
    out.insert(out.end(), {"1", "{\"5\":" + printed(row.range.min - 0.01) + "}",
                           "{\"5\":" + printed(row.range.max + 0.01) + "}"});
    break;
  case field_type::other:
    out.emplace_back("1.5");
    break;
  }
  return out;
}

std::string place_of(const field_spec& row, request_kinds kind) {
  if ((kind & in::all_messages) == 0) return places.at(row.object);
  if (const auto one = user_block_places.find(path_of(row)); one != user_block_places.end())
    return one->second;
  const auto one = message_places.find(row.object);
  return one != message_places.end() ? one->second : places.at(row.object);
}

std::string body_with(const field_spec& row, request_kinds kind, const std::string& value) {
  auto members = std::string("\"").append(row.name).append("\":").append(value);
  if (const auto found = companions.find(path_of(row)); found != companions.end())
    members = found->second + "," + members;
  auto place = place_of(row, kind);
  return "{" + beginning(row, kind) + "," + place.replace(place.find('%'), 1, members) + "}";
}

} // namespace paceline::wire
