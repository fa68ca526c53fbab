#include "protocol/wire/chat_prompt.hpp"

#include "protocol/wire/field_reader.hpp"
#include "protocol/wire/fields/field_table.hpp"
#include "protocol/wire/json_writer.hpp"

#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>

#include <utility>

namespace paceline::wire {

namespace json = boost::json;

namespace {

/// Reads one content part as text; refuses other kinds by name.
void read_part(field_reader& reader, std::string& text) {
  std::string type;
  if (!reader.text(spec("messages[].content[].type", in::chat), type)) reader.fail("type", "is required");
  if (type == "text" || type == "input_text" || type == "output_text") {
    if (!reader.text(spec("messages[].content[].text"), text)) reader.fail("text", "is required");
  } else if (type == "refusal") {
    if (!reader.text(spec("messages[].content[].refusal"), text)) reader.fail("refusal", "is required");
  } else if (!type.empty()) {
    reader.fail(unsupported(reader.path_of("type"), reader.path_of("type") + ": only text is offered"));
  }
  reader.check_unread("messages[].content[]", in::chat);
}

void read_tool_calls(field_reader& outer, std::vector<tool_call>& out) {
  const auto calls = outer.array(spec("messages[].tool_calls"));
  if (!calls) return;
  std::size_t i = 0;
  for (const auto value : *calls) {
    const auto name = indexed("tool_calls", i++);
    if (!value.is_object()) return outer.fail(name, "must be an object");
    field_reader reader(value, outer.path_of(name));
    tool_call call;
    reader.text(spec("messages[].tool_calls[].id"), call.id);
    reader.choice(spec("messages[].tool_calls[].type"));
    const auto function = reader.object(spec("messages[].tool_calls[].function"));
    if (!function) reader.fail("function", "is required");
    if (reader.failure()) return outer.fail(*reader.failure());
    field_reader body(*function, reader.path_of("function"));
    if (!body.text(spec("messages[].tool_calls[].function.name"), call.name))
      body.fail("name", "is required");
    body.text(spec("messages[].tool_calls[].function.arguments"), call.arguments);
    const auto arguments = replace_broken_arguments(body, call);
    if (!body.failure() && count_values(arguments) > max_tree_values)
      body.fail("arguments", "has more than " + std::to_string(max_tree_values) + " values");
    if (body.failure()) return outer.fail(*body.failure());
    out.push_back(std::move(call));
  }
}

chat_message read_message(field_reader& reader) {
  chat_message message;
  const auto role = reader.choice(spec("messages[].role", in::chat));
  if (!role) {
    reader.fail("role", "is required");
    return message;
  }
  static constexpr const char* template_roles[] = {"system", "system", "user", "assistant", "tool", "tool"};
  message.role = template_roles[*role];
  read_content(reader, message.content);
  reader.text(spec("messages[].name"), message.name);
  std::vector<tool_call> calls;
  read_tool_calls(reader, calls);
  if (message.role == "assistant") {
    message.tool_calls = std::move(calls);
    if (!reader.text(spec("messages[].reasoning_content"), message.reasoning))
      reader.text(spec("messages[].reasoning"), message.reasoning);
    std::string refusal;
    if (!message.content && reader.text(spec("messages[].refusal"), refusal))
      message.content = std::move(refusal);
    if (message.content && message.content->empty() && !message.tool_calls.empty()) message.content.reset();
  }
  if (message.role == "tool") reader.text(spec("messages[].tool_call_id"), message.tool_call_id);
  if (!message.content && message.tool_calls.empty()) reader.fail("content", "is required");
  reader.check_unread("messages[]", in::chat);
  return message;
}

/// Checks the fields of a function, in either spelling.
void check_function(field_reader& body) {
  std::string text;
  if (!body.text(spec("tools[].name", in::chat), text)) body.fail("name", "is required");
  body.text(spec("tools[].description"), text);
  body.object(spec("tools[].parameters"));
}

/// {"type":"function","function":{...}} from either spelling, appended to `out`.
void read_tool(field_reader& reader, json_writer& out) {
  if (!reader.choice(spec("tools[].type", in::chat))) {
    reader.fail("type", "is required");
    return;
  }
  const auto nested = reader.object(spec("tools[].function"));
  if (reader.failure()) return;
  out.begin_object().field("type", "function").key("function");
  if (nested) {
    field_reader body(*nested, reader.path_of("function"));
    check_function(body);
    reader.check_unread("tools[]", in::chat);
    if (body.failure()) return reader.fail(*body.failure());
    out.begin_object();
    for (const auto member : nested->members()) // null counts as absent, also for templates
      if (!member.value.is_null()) out.key(member.name()).raw(compact(member.value));
    out.end_object();
  } else {
    check_function(reader);
    out.begin_object();
    for (const auto* row : {&spec("tools[].name", in::chat), &spec("tools[].description"),
                            &spec("tools[].parameters"), &spec("tools[].strict")})
      if (const auto value = reader.find(*row)) out.key(row->name).raw(compact(*value));
    out.end_object();
  }
  out.end_object();
}

} // namespace

std::size_t count_argument_values(std::span<const chat_message> messages) {
  std::size_t count = 0;
  for (const auto& message : messages)
    for (const auto& call : message.tool_calls) count += count_values(json_view(call.arguments));
  return count;
}

std::size_t text_bytes(std::span<const chat_message> messages) {
  std::size_t count = 0;
  for (const auto& message : messages) {
    count += message.reasoning.size() + (message.content ? message.content->size() : 0);
    for (const auto& call : message.tool_calls) count += call.arguments.size();
  }
  return count;
}

void argument_budget::take(field_reader& reader, const chat_message& message, std::string_view field) {
  num_values_ += count_argument_values(std::span(&message, 1));
  if (num_values_ > max_tree_values)
    reader.fail(field, "have, with those before them, more than " + std::to_string(max_tree_values) +
                           " values in their arguments");
}

bool read_content(field_reader& reader, std::optional<std::string>& out) {
  return read_text_parts(reader, spec("messages[].content", in::chat), out);
}

bool read_text_parts(field_reader& reader, const field_spec& row, std::optional<std::string>& out) {
  const auto content = reader.find(row);
  if (!content) return !reader.failure();
  if (content->is_string()) {
    out = content->string();
    return true;
  }
  if (!content->is_array()) {
    reader.fail(row.name, "must be a string or an array of parts, not " + std::string(kind_of(*content)));
    return false;
  }
  out.emplace();
  bool is_first = true;
  reader.for_each_object(row.name, content->elements(), [&](field_reader& part) {
    if (!std::exchange(is_first, false)) *out += '\n';
    std::string text;
    read_part(part, text);
    *out += text;
  });
  return !reader.failure();
}

void read_messages(field_reader& outer, std::size_t max_messages, std::vector<chat_message>& out) {
  const auto messages = outer.array(spec("messages", in::chat).name, 1, max_messages);
  if (!messages) {
    outer.fail("messages", "is required");
    return;
  }
  argument_budget budget;
  outer.for_each_object("messages", *messages, [&](field_reader& reader) {
    out.push_back(read_message(reader));
    budget.take(reader, out.back());
  });
}

namespace {

/// Reads "auto", "none", "required", or a function. In chats a function is
/// {"type":"function","function":{"name":…}}, in responses it is {"type":"function","name":…}.
void read_tool_choice(field_reader& outer, tool_demand& demand) {
  const auto choice = outer.find(spec("tool_choice", in::chat));
  if (!choice || choice->is_string("auto")) return;
  demand.forbidden = choice->is_string("none");
  demand.required = !demand.forbidden;
  if (demand.forbidden || choice->is_string("required")) return;
  if (!choice->is_object())
    return outer.fail("tool_choice", "must be \"auto\", \"none\", \"required\" or a function");
  field_reader reader(*choice, outer.path_of("tool_choice"));
  static constexpr std::string_view only_functions[] = {"function"};
  if (!reader.choice("type", only_functions)) reader.fail("type", "is required");
  const auto nested = reader.object("function");
  if (nested) {
    field_reader function(*nested, reader.path_of("function"));
    if (!function.text("name", demand.function, 1, 256)) function.fail("name", "is required");
    if (function.failure()) reader.fail(*function.failure());
  } else if (!reader.text("name", demand.function, 1, 256)) {
    reader.fail("name", "is required");
  }
  if (reader.failure()) outer.fail(*reader.failure());
}

/// True if a call can be demanded. With a name, only a call of the tool with that name is possible.
bool has_tool(const std::string& tools, const std::string& name) {
  for (const auto tool : json_view(tools).elements())
    for (const auto member : tool.members())
      if (member.is_named("function"))
        for (const auto inner : member.value.members())
          if (inner.is_named("name") && (name.empty() || inner.value.is_string(name))) return true;
  return false;
}

} // namespace

json_view replace_broken_arguments(field_reader& reader, tool_call& call) {
  const json_limits limits{call.arguments.size()};
  const auto object = parse_object(call.arguments, limits);
  if (object) return *object;
  if (object.failure().message.starts_with(nests_too_deep))
    reader.fail("arguments", "nests deeper than " + std::to_string(limits.max_depth) + " levels");
  call.arguments = "{}";
  return json_view(call.arguments);
}

std::string read_tool_list(field_reader& outer, void (*read)(field_reader&, json_writer&)) {
  const auto tools = outer.array(spec("tools"));
  if (!tools || tools->empty()) return {};
  json_writer kept;
  kept.begin_array();
  std::size_t i = 0;
  std::size_t num_values = 0;
  for (const auto tool : *tools) {
    const auto name = indexed("tools", i++);
    if (!tool.is_object()) {
      outer.fail(name, "must be an object");
      return {};
    }
    num_values += count_values(tool);
    if (num_values > max_tree_values) {
      outer.fail(name,
                 "has, with the tools before it, more than " + std::to_string(max_tree_values) + " values");
      return {};
    }
    field_reader reader(tool, outer.path_of(name));
    read(reader, kept);
    if (reader.failure()) {
      outer.fail(*reader.failure());
      return {};
    }
  }
  return kept.end_array().take();
}

void read_tools(field_reader& outer, std::string& out, bool& parallel, tool_demand& demand) {
  outer.boolean(spec("parallel_tool_calls"), parallel);
  read_tool_choice(outer, demand);
  out = read_tool_list(outer, read_tool);
  judge_tool_demand(outer, out, demand);
}

void read_tools(field_reader& outer, chat_prompt& out) {
  read_tools(outer, out.tools, out.parallel_tool_calls, out.demand);
  if (out.demand.forbidden) out.tools.clear();
}

void judge_tool_demand(field_reader& outer, const std::string& tools, const tool_demand& demand) {
  if (demand.required && (tools.empty() || !has_tool(tools, demand.function)))
    outer.fail("tool_choice", demand.function.empty() ? "needs tools" : "names no function of tools");
}

json::object template_variables(const chat_prompt& prompt) {
  json::array messages;
  for (const auto& message : prompt.messages) {
    json::object turn{{"role", message.role}};
    turn["content"] = message.content ? json::value(*message.content) : json::value(nullptr);
    if (!message.name.empty()) turn["name"] = message.name;
    if (!message.tool_call_id.empty()) turn["tool_call_id"] = message.tool_call_id;
    if (!message.reasoning.empty()) // gpt-oss's template has another name for it
      for (const auto* field : {"reasoning_content", "thinking"}) turn[field] = message.reasoning;
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
  if (!prompt.reasoning_effort.empty()) variables["reasoning_effort"] = prompt.reasoning_effort;
  return variables;
}

} // namespace paceline::wire
