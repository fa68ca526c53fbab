#include "protocol/wire/messages_request.hpp"

#include "protocol/wire/field_reader.hpp"
#include "protocol/wire/fields/field_table.hpp"
#include "protocol/wire/json_writer.hpp"
#include "protocol/wire/unsupported_fields.hpp"

#include <iterator>
#include <string>
#include <utility>

namespace paceline::wire {

namespace {

constexpr auto max_calls = static_cast<std::size_t>(spec("messages[].tool_calls").most); // of one message

void append_text(std::string_view text, std::optional<std::string>& out) {
  if (out)
    out->append("\n").append(text);
  else
    out.emplace(text);
}

/// Reads a block of text. Its `type` was read before.
void read_text(field_reader& reader, std::optional<std::string>& out) {
  std::string text;
  if (!reader.text(spec("messages[].content[].text"), text)) reader.fail("text", "is required");
  append_text(text, out);
}

void refuse_block(field_reader& reader, const std::string& type) {
  if (reader.failure()) return;
  if (type.empty()) return reader.fail("type", "is required");
  const auto path = reader.path_of("type");
  reader.fail(unsupported(path, path + ": blocks of type \"" + type.substr(0, 64) + "\" are not offered"));
}

/// Calls `read` with a reader and the type of each block of the field `list`.
template <class Read>
void for_each_block(field_reader& outer, const field_spec& list, json_elements blocks, Read read) {
  const auto& type_row = spec("messages[].content[].type", in::messages);
  const auto path = path_of(list) + "[]";
  outer.for_each_object(list.name, blocks, [&](field_reader& reader) {
    std::string type;
    reader.text(type_row, type);
    read(reader, type);
    reader.check_unread(path, in::messages);
  });
}

/// Reads a text, or blocks of text only.
void read_texts(field_reader& reader, const field_spec& row, std::optional<std::string>& out) {
  const auto value = reader.find(row);
  if (!value) return;
  if (auto text = value->string()) {
    out = *std::move(text);
    return;
  }
  if (!value->is_array())
    return reader.fail(row.name,
                       "must be a string or an array of blocks, not " + std::string(kind_of(*value)));
  for_each_block(reader, row, value->elements(), [&](field_reader& block, const std::string& type) {
    if (type == "text")
      read_text(block, out);
    else
      refuse_block(block, type);
  });
}

tool_call read_call(field_reader& reader) {
  tool_call call;
  reader.text(spec("messages[].content[].id"), call.id);
  if (!reader.text(spec("messages[].content[].name"), call.name)) reader.fail("name", "is required");
  const auto input = reader.object(spec("messages[].content[].input"));
  if (!input) reader.fail("input", "is required");
  if (input) call.arguments = compact(*input);
  return call;
}

void read_thoughts(field_reader& block, std::string& out) {
  std::string text;
  block.text(spec("messages[].content[].thinking"), text);
  if (!out.empty() && !text.empty()) out += "\n\n";
  out += text;
}

/// Reads the assistant's blocks, which form one turn.
void read_answer(field_reader& reader, json_elements blocks, std::vector<chat_message>& out) {
  chat_message turn;
  turn.role = "assistant";
  for_each_block(reader, spec("messages[].content", in::messages), blocks,
                 [&](field_reader& block, const std::string& type) {
                   if (type == "text") return read_text(block, turn.content);
                   if (type == "redacted_thinking") return;
                   if (type == "thinking") return read_thoughts(block, turn.reasoning);
                   if (type != "tool_use") return refuse_block(block, type);
                   if (turn.tool_calls.size() == max_calls)
                     return block.fail("", "is beyond the " + std::to_string(max_calls) +
                                               "th call of its message");
                   turn.tool_calls.push_back(read_call(block));
                 });
  if (!turn.content && turn.tool_calls.empty()) turn.content = "";
  out.push_back(std::move(turn));
}

/// Reads the user's blocks. Each result of a tool becomes a separate turn, as templates expect.
void read_question(field_reader& reader, json_elements blocks, std::vector<chat_message>& out) {
  std::optional<std::string> said;
  const auto end_turn = [&] {
    if (said) out.push_back({"user", *std::exchange(said, std::nullopt), "", {}, ""});
  };
  for_each_block(reader, spec("messages[].content", in::messages), blocks,
                 [&](field_reader& block, const std::string& type) {
                   if (type == "text") return read_text(block, said);
                   if (type != "tool_result") return refuse_block(block, type);
                   end_turn();
                   chat_message result;
                   result.role = "tool";
                   if (!block.text(spec("messages[].content[].tool_use_id"), result.tool_call_id))
                     block.fail("tool_use_id", "is required");
                   read_texts(block, spec("messages[].content[].content"), result.content);
                   if (!result.content) result.content = "";
                   out.push_back(std::move(result));
                 });
  end_turn();
}

void read_message(field_reader& reader, std::vector<chat_message>& out) {
  const auto role = reader.choice(spec("messages[].role", in::messages));
  if (!role) reader.fail("role", "is required");
  const auto content = reader.find(spec("messages[].content", in::messages));
  if (!content) reader.fail("content", "is required");
  if (reader.failure()) return;
  if (auto text = content->string())
    return out.push_back({*role == 0 ? "user" : "assistant", *std::move(text), "", {}, ""});
  if (!content->is_array())
    return reader.fail("content",
                       "must be a string or an array of blocks, not " + std::string(kind_of(*content)));
  if (content->elements().empty()) return reader.fail("content", "must not be empty");
  if (*role == 0)
    read_question(reader, content->elements(), out);
  else
    read_answer(reader, content->elements(), out);
}

/// Joins the first turn of a message, at `begin`, to the turn before it if both are of one role, as the API
/// promises. Results of tools stay turns of their own.
void join_turns(std::size_t begin, std::vector<chat_message>& out) {
  if (begin == 0 || begin >= out.size()) return;
  auto& last = out[begin - 1];
  auto& added = out[begin];
  if (last.role != added.role || (last.role != "user" && last.role != "assistant")) return;
  if (!last.content || last.content->empty())
    last.content = std::move(added.content);
  else if (added.content && !added.content->empty())
    append_text(*added.content, last.content);
  if (!last.reasoning.empty() && !added.reasoning.empty()) last.reasoning += "\n\n";
  last.reasoning += added.reasoning;
  std::move(added.tool_calls.begin(), added.tool_calls.end(), std::back_inserter(last.tool_calls));
  out.erase(out.begin() + static_cast<std::ptrdiff_t>(begin));
}

void read_conversation(field_reader& outer, std::size_t max_turns, std::vector<chat_message>& out) {
  std::optional<std::string> system;
  read_texts(outer, spec("system"), system);
  if (system && !system->empty()) out.push_back({"system", *std::move(system), "", {}, ""});
  const auto messages = outer.array(spec("messages", in::messages).name, 1, max_turns);
  if (!messages) {
    outer.fail("messages", "is required");
    return;
  }
  argument_budget budget;
  outer.for_each_object("messages", *messages, [&](field_reader& reader) {
    const auto num_before = out.size();
    read_message(reader, out);
    for (auto turn = num_before; turn < out.size(); ++turn) budget.take(reader, out[turn], "content");
    join_turns(num_before, out);
    if (out.size() > max_turns + 1)
      reader.fail("content", "has, with the messages before it, more than " + std::to_string(max_turns) +
                                 " turns: each tool_result is one");
  });
  if (outer.failure()) return;
  if (out.back().role == "assistant")
    outer.fail(unsupported("messages", "messages: the last one must be the user's, because a message of the "
                                       "assistant is not continued"));
}

/// Appends a tool to `out` in OpenAI's spelling, which templates expect.
void read_tool(field_reader& reader, json_writer& out) {
  std::string type = "custom";
  if (reader.text(spec("tools[].type", in::messages), type) && type != "custom")
    return reader.fail(unsupported(reader.path_of("type"), reader.path_of("type") + ": tools of type \"" +
                                                               type.substr(0, 64) + "\" are not offered"));
  std::string text;
  if (!reader.text(spec("tools[].name", in::messages), text)) reader.fail("name", "is required");
  out.begin_object().field("type", "function").key("function").begin_object().field("name", text);
  if (reader.text(spec("tools[].description"), text)) out.field("description", text);
  const auto schema = reader.object(spec("tools[].input_schema"));
  if (!schema) reader.fail("input_schema", "is required");
  if (schema) out.key("parameters").raw(compact(*schema));
  if (const auto strict = reader.find(spec("tools[].strict"))) out.key("strict").raw(compact(*strict));
  out.end_object().end_object();
}

void read_tool_choice(field_reader& outer, chat_prompt& out) {
  const auto fields = outer.object(spec("tool_choice", in::messages));
  if (!fields) return;
  field_reader reader(*fields, outer.path_of("tool_choice"));
  const auto type = reader.choice(spec("tool_choice.type"));
  if (!type) reader.fail("type", "is required");
  out.demand.forbidden = type == std::size_t{1};
  out.demand.required = type >= std::size_t{2};
  const bool is_named = reader.text(spec("tool_choice.name"), out.demand.function);
  if (type == std::size_t{3} && !is_named) reader.fail("name", "is required");
  if (type != std::size_t{3}) out.demand.function.clear();
  bool alone = false;
  if (reader.boolean(spec("tool_choice.disable_parallel_tool_use"), alone)) out.parallel_tool_calls = !alone;
  if (reader.failure()) return outer.fail(*reader.failure());
  if (out.demand.forbidden) out.tools.clear();
  judge_tool_demand(outer, out.tools, out.demand);
}

void read_thinking(field_reader& outer, chat_request& out) {
  const auto fields = outer.object(spec("thinking"));
  if (!fields) return;
  field_reader reader(*fields, outer.path_of("thinking"));
  const auto type = reader.choice(spec("thinking.type"));
  if (!type) reader.fail("type", "is required");
  if (type < std::size_t{2}) out.prompt.enable_thinking = type == std::size_t{1};
  std::uint32_t budget = 0; // a budget cannot be enforced: thoughts end when the model ends them
  reader.integer(spec("thinking.budget_tokens"), budget);
  if (const auto display = reader.choice(spec("thinking.display"))) out.fields.thoughts.shown = *display == 0;
  outer.adopt(reader);
}

void read_output_config(field_reader& outer, generation_fields& out) {
  const auto fields = outer.object(spec("output_config"));
  if (!fields) return;
  field_reader reader(*fields, outer.path_of("output_config"));
  read_effort(reader, spec("output_config.effort"), out.effort);
  read_output_format(reader, out.constraint);
  outer.adopt(reader);
}

void read_metadata(field_reader& outer, std::string& user) {
  const auto fields = outer.object(spec("metadata", in::messages));
  if (!fields) return;
  field_reader reader(*fields, outer.path_of("metadata"));
  reader.text(spec("metadata.user_id"), user);
  if (reader.failure()) outer.fail(*reader.failure());
}

parsed<chat_request> parse(std::string_view body, const request_limits& limits, request_kinds kind) {
  auto fields = parse_object(body, {limits.max_body_bytes, limits.max_json_depth});
  if (!fields) return std::move(fields).failure();
  field_reader reader(*fields, "");
  chat_request request;
  auto& generation = request.fields;
  // First, because some of these fields have another meaning in other requests.
  refuse_unsupported(reader, kind);
  const auto& max_tokens = spec("max_tokens", in::messages);
  if (!reader.integer(max_tokens, generation.max_tokens) && kind == in::messages)
    reader.fail("max_tokens", "is required");
  // The field is required, so clients send a fixed number without knowing the context.
  generation.clamps_max_tokens = true;
  read_conversation(reader, limits.max_messages, request.prompt.messages);
  request.prompt.tools = read_tool_list(reader, read_tool);
  read_tool_choice(reader, request.prompt);
  float temperature = 1;
  reader.number(spec("temperature", in::messages),
                temperature); // read again below, with the same range as in other requests
  read_generation_fields(reader, limits, generation);
  refuse_several_outputs(reader, generation);
  read_stop_strings(reader, spec("stop_sequences"), generation.stop.stop_strings);
  read_metadata(reader, generation.user);
  read_thinking(reader, request);
  read_constraint(reader, generation.constraint);
  read_output_config(reader, generation);
  if (reader.failure()) return *reader.failure();
  add_ignored(reader.ignored(), generation);
  return request;
}

} // namespace

parsed<chat_request> parse_messages_request(std::string_view body, const request_limits& limits) {
  return parse(body, limits, in::messages);
}

parsed<chat_request> parse_count_request(std::string_view body, const request_limits& limits) {
  return parse(body, limits, in::count_tokens);
}

} // namespace paceline::wire
