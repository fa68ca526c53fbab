#include "protocol/wire/chat_prompt.hpp"

#include "protocol/wire/field_reader.hpp"
#include "protocol/wire/json_writer.hpp"

#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>

namespace paceline::wire {

namespace json = boost::json;

namespace {

constexpr std::size_t max_text_bytes = 1U << 30U; // the limit of the body applies instead
constexpr std::size_t max_tool_calls = 128;

std::string indexed(std::string_view name, std::size_t i) {
  return std::string(name) + "[" + std::to_string(i) + "]";
}

/// Reads one content part as text; refuses other kinds by name.
bool append_part(field_reader& outer, json_view part, std::size_t index, std::string& out) {
  const auto name = indexed("content", index);
  if (!part.is_object()) {
    outer.fail(name, "must be an object, not " + std::string(kind_of(part)));
    return false;
  }
  field_reader reader(part, outer.path_of(name));
  std::string type;
  std::string text;
  if (!reader.text("type", type, 1, 64) && !reader.failure()) reader.fail("type", "is required");
  if (type == "text" || type == "input_text" || type == "output_text") {
    if (!reader.text("text", text, 0, max_text_bytes) && !reader.failure())
      reader.fail("text", "is required");
  } else if (type == "refusal") {
    if (!reader.text("refusal", text, 0, max_text_bytes) && !reader.failure())
      reader.fail("refusal", "is required");
  } else if (!type.empty()) {
    reader.fail(unsupported(reader.path_of("type"), reader.path_of("type") + ": only text is offered"));
  }
  if (reader.failure()) {
    outer.fail(*reader.failure());
    return false;
  }
  if (index > 0) out += '\n';
  out += text;
  return true;
}

bool is_json_object(const std::string& text) {
  const auto value = parse_object(text);
  return value && count_values(*value) <= max_tree_values;
}

void read_tool_calls(field_reader& outer, std::vector<tool_call>& out) {
  const auto calls = outer.array("tool_calls", 0, max_tool_calls);
  if (!calls) return;
  std::size_t i = 0;
  for (const auto value : *calls) {
    const auto name = indexed("tool_calls", i++);
    if (!value.is_object()) return outer.fail(name, "must be an object");
    field_reader reader(value, outer.path_of(name));
    tool_call call;
    reader.text("id", call.id, 0, 256);
    reader.choice("type", {"function"});
    const auto function = reader.object("function");
    if (!function && !reader.failure()) reader.fail("function", "is required");
    if (reader.failure()) return outer.fail(*reader.failure());
    field_reader body(*function, reader.path_of("function"));
    if (!body.text("name", call.name, 1, 256) && !body.failure()) body.fail("name", "is required");
    body.text("arguments", call.arguments, 0, max_text_bytes);
    if (call.arguments.empty()) call.arguments = "{}";
    if (!body.failure() && !is_json_object(call.arguments))
      body.fail("arguments", "must be the JSON text of an object");
    if (body.failure()) return outer.fail(*body.failure());
    out.push_back(std::move(call));
  }
}

chat_message read_message(field_reader& reader) {
  chat_message message;
  const auto role = reader.choice("role", {"system", "developer", "user", "assistant", "tool", "function"});
  if (!role) {
    if (!reader.failure()) reader.fail("role", "is required");
    return message;
  }
  static constexpr const char* template_roles[] = {"system", "system", "user", "assistant", "tool", "tool"};
  message.role = template_roles[*role];
  read_content(reader, message.content);
  reader.text("name", message.name, 1, 256);
  if (message.role == "assistant") {
    read_tool_calls(reader, message.tool_calls);
    if (!message.content) reader.text("refusal", message.content.emplace(), 0, max_text_bytes);
    if (message.content && message.content->empty() && !message.tool_calls.empty()) message.content.reset();
    reader.refuse("audio", "only text is offered");
    reader.refuse("function_call", "use tool_calls");
  }
  if (message.role == "tool") reader.text("tool_call_id", message.tool_call_id, 0, 256);
  if (!message.content && message.tool_calls.empty() && !reader.failure())
    reader.fail("content", "is required");
  return message;
}

/// Checks the fields of a function, in either spelling.
void check_function(field_reader& body) {
  std::string text;
  if (!body.text("name", text, 1, 256) && !body.failure()) body.fail("name", "is required");
  body.text("description", text, 0, max_text_bytes);
  body.object("parameters");
}

/// {"type":"function","function":{...}} from either spelling, appended to `out`.
void read_tool(field_reader& reader, json_writer& out) {
  if (!reader.choice("type", {"function"})) {
    if (!reader.failure()) reader.fail("type", "is required");
    return;
  }
  const auto nested = reader.object("function");
  if (reader.failure()) return;
  out.begin_object().field("type", "function").key("function");
  if (nested) {
    field_reader body(*nested, reader.path_of("function"));
    check_function(body);
    if (body.failure()) return reader.fail(*body.failure());
    out.raw(compact(*nested));
  } else {
    check_function(reader);
    out.begin_object();
    for (const auto* name : {"name", "description", "parameters", "strict"})
      if (const auto value = reader.find(name)) out.key(name).raw(compact(*value));
    out.end_object();
  }
  out.end_object();
}

} // namespace

void argument_budget::take(field_reader& reader, const chat_message& message, std::string_view field) {
  for (const auto& call : message.tool_calls) num_values_ += count_values(json_view(call.arguments));
  if (num_values_ > max_tree_values)
    reader.fail(field, "have, with those before them, more than " + std::to_string(max_tree_values) +
                           " values in their arguments");
}

bool read_content(field_reader& reader, std::optional<std::string>& out) {
  const auto content = reader.find("content");
  if (!content) return !reader.failure();
  if (content->is_string()) {
    out = content->string();
    return true;
  }
  if (!content->is_array()) {
    reader.fail("content", "must be a string or an array of parts, not " + std::string(kind_of(*content)));
    return false;
  }
  out.emplace();
  std::size_t i = 0;
  for (const auto part : content->elements())
    if (!append_part(reader, part, i++, *out)) return false;
  return true;
}

void read_messages(field_reader& outer, std::size_t max_messages, std::vector<chat_message>& out) {
  const auto messages = outer.array("messages", 1, max_messages);
  if (!messages) {
    if (!outer.failure()) outer.fail("messages", "is required");
    return;
  }
  std::size_t i = 0;
  argument_budget budget;
  for (const auto message : *messages) {
    const auto name = indexed("messages", i++);
    if (!message.is_object())
      return outer.fail(name, "must be an object, not " + std::string(kind_of(message)));
    field_reader reader(message, outer.path_of(name));
    out.push_back(read_message(reader));
    budget.take(reader, out.back());
    if (reader.failure()) return outer.fail(*reader.failure());
  }
}

void read_tools(field_reader& outer, std::string& out, bool& parallel) {
  outer.boolean("parallel_tool_calls", parallel);
  const auto choice = outer.find("tool_choice");
  const auto tools = outer.array("tools", 0, max_tools);
  json_writer kept;
  kept.begin_array();
  std::size_t num_tools = 0;
  std::size_t num_values = 0;
  for (const auto tool : tools ? *tools : json_elements("[]")) {
    const auto name = indexed("tools", num_tools++);
    if (!tool.is_object()) return outer.fail(name, "must be an object");
    num_values += count_values(tool);
    if (num_values > max_tree_values)
      return outer.fail(name, "has, with the tools before it, more than " + std::to_string(max_tree_values) +
                                  " values");
    field_reader reader(tool, outer.path_of(name));
    read_tool(reader, kept);
    if (reader.failure()) return outer.fail(*reader.failure());
  }
  if (choice && !choice->is_string("none") && !choice->is_string("auto"))
    return outer.fail(
        unsupported(outer.path_of("tool_choice"), "tool_choice: only \"auto\" and \"none\" are offered"));
  const bool offered = !choice || choice->is_string("auto");
  if (offered && num_tools > 0) out = kept.end_array().take();
}

json::object template_variables(const chat_prompt& prompt) {
  json::array messages;
  for (const auto& message : prompt.messages) {
    json::object turn{{"role", message.role}};
    turn["content"] = message.content ? json::value(*message.content) : json::value(nullptr);
    if (!message.name.empty()) turn["name"] = message.name;
    if (!message.tool_call_id.empty()) turn["tool_call_id"] = message.tool_call_id;
    json::array calls;
    for (const auto& call : message.tool_calls) {
      json::error_code malformed; // it was checked when it was read
      auto arguments = json::parse(call.arguments, malformed);
      calls.push_back(json::object{{"id", call.id},
                                   {"type", "function"},
                                   {"function", {{"name", call.name}, {"arguments", std::move(arguments)}}}});
    }
    if (!calls.empty()) turn["tool_calls"] = std::move(calls);
    messages.push_back(std::move(turn));
  }
  json::object variables{{"messages", std::move(messages)},
                         {"add_generation_prompt", prompt.add_generation_prompt}};
  if (!prompt.tools.empty()) variables["tools"] = json::parse(prompt.tools);
  if (prompt.enable_thinking) {
    variables["enable_thinking"] = *prompt.enable_thinking;
    variables["thinking"] = *prompt.enable_thinking;
  }
  return variables;
}

} // namespace paceline::wire
