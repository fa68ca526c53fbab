#include "protocol/wire/chat_prompt.hpp"

#include "protocol/wire/field_reader.hpp"

#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>

namespace paceline::wire {

namespace json = boost::json;

namespace {

constexpr std::size_t max_text_bytes = 1U << 30U; // the body's limit is the one that counts
constexpr std::size_t max_tool_calls = 128;
constexpr std::size_t max_tools = 128;

std::string indexed(std::string_view name, std::size_t i) {
  return std::string(name) + "[" + std::to_string(i) + "]";
}

/// One content part as text; anything but text is refused by name.
bool append_part(field_reader& outer, const json::value& part, std::size_t index, std::string& out) {
  const auto name = indexed("content", index);
  const auto* fields = part.if_object();
  if (fields == nullptr) {
    outer.fail(name, "must be an object, not " + std::string(kind_of(part)));
    return false;
  }
  field_reader reader(*fields, outer.path_of(name));
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
  return static_cast<bool>(value);
}

void read_tool_calls(field_reader& outer, std::vector<tool_call>& out) {
  const auto* calls = outer.array("tool_calls", 0, max_tool_calls);
  if (calls == nullptr) return;
  for (std::size_t i = 0; i < calls->size(); ++i) {
    const auto name = indexed("tool_calls", i);
    const auto* fields = (*calls)[i].if_object();
    if (fields == nullptr) return outer.fail(name, "must be an object");
    field_reader reader(*fields, outer.path_of(name));
    tool_call call;
    reader.text("id", call.id, 0, 256);
    reader.choice("type", {"function"});
    const auto* function = reader.object("function");
    if (function == nullptr && !reader.failure()) reader.fail("function", "is required");
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

/// {"type":"function","function":{...}} from either spelling.
std::optional<json::object> read_tool(field_reader& reader) {
  if (!reader.choice("type", {"function"})) {
    if (!reader.failure()) reader.fail("type", "is required");
    return std::nullopt;
  }
  const auto* nested = reader.object("function");
  json::object function;
  if (nested != nullptr) {
    function = *nested;
  } else {
    for (const auto* name : {"name", "description", "parameters", "strict"})
      if (const auto* value = reader.find(name)) function[name] = *value;
  }
  field_reader body(function, nested != nullptr ? reader.path_of("function") : reader.path_of(""));
  std::string text;
  if (!body.text("name", text, 1, 256) && !body.failure()) body.fail("name", "is required");
  body.text("description", text, 0, max_text_bytes);
  body.object("parameters");
  if (body.failure()) reader.fail(*body.failure());
  if (reader.failure()) return std::nullopt;
  return json::object{{"type", "function"}, {"function", std::move(function)}};
}

} // namespace

bool read_content(field_reader& reader, std::optional<std::string>& out) {
  const auto* content = reader.find("content");
  if (content == nullptr) return !reader.failure();
  if (const auto* text = content->if_string()) {
    out.emplace(text->data(), text->size());
    return true;
  }
  const auto* parts = content->if_array();
  if (parts == nullptr) {
    reader.fail("content", "must be a string or an array of parts, not " + std::string(kind_of(*content)));
    return false;
  }
  out.emplace();
  for (std::size_t i = 0; i < parts->size(); ++i)
    if (!append_part(reader, (*parts)[i], i, *out)) return false;
  return true;
}

void read_messages(field_reader& outer, std::size_t max_messages, std::vector<chat_message>& out) {
  const auto* messages = outer.array("messages", 1, max_messages);
  if (messages == nullptr) {
    if (!outer.failure()) outer.fail("messages", "is required");
    return;
  }
  for (std::size_t i = 0; i < messages->size(); ++i) {
    const auto name = indexed("messages", i);
    const auto* fields = (*messages)[i].if_object();
    if (fields == nullptr)
      return outer.fail(name, "must be an object, not " + std::string(kind_of((*messages)[i])));
    field_reader reader(*fields, outer.path_of(name));
    out.push_back(read_message(reader));
    if (reader.failure()) return outer.fail(*reader.failure());
  }
}

void read_tools(field_reader& outer, std::string& out) {
  bool parallel = true;
  outer.boolean("parallel_tool_calls", parallel);
  const auto* choice = outer.find("tool_choice");
  const auto* tools = outer.array("tools", 0, max_tools);
  json::array kept;
  for (std::size_t i = 0; tools != nullptr && i < tools->size(); ++i) {
    const auto name = indexed("tools", i);
    const auto* fields = (*tools)[i].if_object();
    if (fields == nullptr) return outer.fail(name, "must be an object");
    field_reader reader(*fields, outer.path_of(name));
    auto tool = read_tool(reader);
    if (!tool) return outer.fail(*reader.failure());
    kept.push_back(std::move(*tool));
  }
  bool offered = true;
  if (choice != nullptr) {
    const auto* text = choice->if_string();
    if (text != nullptr && *text == "none")
      offered = false;
    else if (text == nullptr || *text != "auto")
      return outer.fail(
          unsupported(outer.path_of("tool_choice"), "tool_choice: only \"auto\" and \"none\" are offered"));
  }
  if (offered && !kept.empty()) out = json::serialize(kept);
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
      auto arguments = parse_object(call.arguments);
      calls.push_back(
          json::object{{"id", call.id},
                       {"type", "function"},
                       {"function",
                        {{"name", call.name},
                         {"arguments", arguments ? json::value(*arguments) : json::value(nullptr)}}}});
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
