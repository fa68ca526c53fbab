#include "protocol/wire/messages_request.hpp"

#include "protocol/wire/field_reader.hpp"
#include "protocol/wire/json_writer.hpp"

#include <string>
#include <utility>

namespace paceline::wire {

namespace {

constexpr std::int64_t max_int32 = 2147483647;
constexpr std::size_t max_text_bytes = 1U << 30U; // the limit of the body applies instead
constexpr std::size_t max_calls = 128;            // of one message

std::string indexed(std::string_view name, std::size_t i) {
  return std::string(name) + "[" + std::to_string(i) + "]";
}

void append_text(std::string_view text, std::optional<std::string>& out) {
  if (out)
    out->append("\n").append(text);
  else
    out.emplace(text);
}

/// A block of text. `type` was read.
void read_text(field_reader& reader, std::optional<std::string>& out) {
  std::string text;
  if (!reader.text("text", text, 0, max_text_bytes) && !reader.failure()) reader.fail("text", "is required");
  append_text(text, out);
}

void refuse_block(field_reader& reader, const std::string& type) {
  if (reader.failure()) return;
  if (type.empty()) return reader.fail("type", "is required");
  const auto path = reader.path_of("type");
  reader.fail(unsupported(path, path + ": blocks of type \"" + type.substr(0, 64) + "\" are not offered"));
}

/// Calls `read` with a reader and the type of each block of a list.
template <class Read>
void for_each_block(field_reader& outer, std::string_view field, json_elements blocks, Read read) {
  std::size_t i = 0;
  for (const auto block : blocks) {
    const auto name = indexed(field, i++);
    if (!block.is_object()) return outer.fail(name, "must be an object, not " + std::string(kind_of(block)));
    field_reader reader(block, outer.path_of(name));
    std::string type;
    reader.text("type", type, 1, 256);
    read(reader, type);
    if (reader.failure()) return outer.fail(*reader.failure());
  }
}

/// A text, or blocks of text alone.
void read_texts(field_reader& reader, std::string_view field, std::optional<std::string>& out) {
  const auto value = reader.find(field);
  if (!value) return;
  if (auto text = value->string()) {
    out = *std::move(text);
    return;
  }
  if (!value->is_array())
    return reader.fail(field, "must be a string or an array of blocks, not " + std::string(kind_of(*value)));
  for_each_block(reader, field, value->elements(), [&](field_reader& block, const std::string& type) {
    if (type == "text")
      read_text(block, out);
    else
      refuse_block(block, type);
  });
}

tool_call read_call(field_reader& reader) {
  tool_call call;
  reader.text("id", call.id, 0, 256);
  if (!reader.text("name", call.name, 1, 256) && !reader.failure()) reader.fail("name", "is required");
  const auto input = reader.object("input");
  if (!input && !reader.failure()) reader.fail("input", "is required");
  if (input) call.arguments = compact(*input);
  return call;
}

/// The blocks of the assistant: one turn. Thoughts of earlier turns are no part of a prompt.
void read_answer(field_reader& reader, json_elements blocks, std::vector<chat_message>& out) {
  chat_message turn;
  turn.role = "assistant";
  for_each_block(reader, "content", blocks, [&](field_reader& block, const std::string& type) {
    if (type == "text") return read_text(block, turn.content);
    if (type == "thinking" || type == "redacted_thinking") return;
    if (type != "tool_use") return refuse_block(block, type);
    if (turn.tool_calls.size() == max_calls) return block.fail("", "is beyond the 128th call of its message");
    turn.tool_calls.push_back(read_call(block));
  });
  if (!turn.content && turn.tool_calls.empty()) turn.content = "";
  out.push_back(std::move(turn));
}

/// The blocks of the user. Each result of a tool is a turn of its own, as templates expect it.
void read_question(field_reader& reader, json_elements blocks, std::vector<chat_message>& out) {
  std::optional<std::string> said;
  const auto end_turn = [&] {
    if (said) out.push_back({"user", *std::exchange(said, std::nullopt), "", {}, ""});
  };
  for_each_block(reader, "content", blocks, [&](field_reader& block, const std::string& type) {
    if (type == "text") return read_text(block, said);
    if (type != "tool_result") return refuse_block(block, type);
    end_turn();
    chat_message result;
    result.role = "tool";
    if (!block.text("tool_use_id", result.tool_call_id, 1, 256) && !block.failure())
      block.fail("tool_use_id", "is required");
    read_texts(block, "content", result.content);
    if (!result.content) result.content = "";
    out.push_back(std::move(result));
  });
  end_turn();
}

void read_message(field_reader& reader, std::vector<chat_message>& out) {
  const auto role = reader.choice("role", {"user", "assistant"});
  if (!role && !reader.failure()) reader.fail("role", "is required");
  const auto content = reader.find("content");
  if (!content && !reader.failure()) reader.fail("content", "is required");
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

void read_conversation(field_reader& outer, std::size_t max_turns, std::vector<chat_message>& out) {
  std::optional<std::string> system;
  read_texts(outer, "system", system);
  if (system && !system->empty()) out.push_back({"system", *std::move(system), "", {}, ""});
  const auto messages = outer.array("messages", 1, max_turns);
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
    const auto num_before = out.size();
    read_message(reader, out);
    for (auto turn = num_before; turn < out.size(); ++turn) budget.take(reader, out[turn], "content");
    if (out.size() > max_turns + 1)
      reader.fail("content", "has, with the messages before it, more than " + std::to_string(max_turns) +
                                 " turns: each tool_result is one");
    if (reader.failure()) return outer.fail(*reader.failure());
  }
  if (out.back().role == "assistant")
    outer.fail(unsupported("messages", "messages: the last one must be the user's, because a message of the "
                                       "assistant is not continued"));
}

/// OpenAI's spelling of a tool, which templates expect, appended to `out`.
void read_tool(field_reader& reader, json_writer& out) {
  std::string type = "custom";
  if (reader.text("type", type, 1, 256) && type != "custom")
    return reader.fail(unsupported(reader.path_of("type"), reader.path_of("type") + ": tools of type \"" +
                                                               type.substr(0, 64) + "\" are not offered"));
  std::string text;
  if (!reader.text("name", text, 1, 256) && !reader.failure()) reader.fail("name", "is required");
  out.begin_object().field("type", "function").key("function").begin_object().field("name", text);
  if (reader.text("description", text, 0, max_text_bytes)) out.field("description", text);
  const auto schema = reader.object("input_schema");
  if (!schema && !reader.failure()) reader.fail("input_schema", "is required");
  if (schema) out.key("parameters").raw(compact(*schema));
  out.end_object().end_object();
}

void read_tools(field_reader& outer, std::string& out) {
  const auto tools = outer.array("tools", 0, max_tools);
  if (!tools || tools->empty()) return;
  json_writer kept;
  kept.begin_array();
  std::size_t i = 0;
  std::size_t num_values = 0;
  for (const auto tool : *tools) {
    const auto name = indexed("tools", i++);
    if (!tool.is_object()) return outer.fail(name, "must be an object");
    num_values += count_values(tool);
    if (num_values > max_tree_values)
      return outer.fail(name, "has, with the tools before it, more than " + std::to_string(max_tree_values) +
                                  " values");
    field_reader reader(tool, outer.path_of(name));
    read_tool(reader, kept);
    if (reader.failure()) return outer.fail(*reader.failure());
  }
  out = kept.end_array().take();
}

void read_tool_choice(field_reader& outer, chat_prompt& out) {
  const auto fields = outer.object("tool_choice");
  if (!fields) return;
  field_reader reader(*fields, outer.path_of("tool_choice"));
  const auto type = reader.choice("type", {"auto", "none", "any", "tool"});
  if (!type && !reader.failure()) reader.fail("type", "is required");
  if (type > std::size_t{1})
    reader.fail(unsupported("tool_choice.type", "tool_choice.type: only \"auto\" and \"none\" are offered"));
  bool alone = false;
  if (reader.boolean("disable_parallel_tool_use", alone)) out.parallel_tool_calls = !alone;
  if (reader.failure()) return outer.fail(*reader.failure());
  if (type == std::size_t{1}) out.tools.clear();
}

void read_thinking(field_reader& outer, chat_request& out) {
  const auto fields = outer.object("thinking");
  if (!fields) return;
  field_reader reader(*fields, outer.path_of("thinking"));
  const auto type = reader.choice("type", {"disabled", "enabled", "adaptive"});
  if (!type && !reader.failure()) reader.fail("type", "is required");
  if (type < std::size_t{2}) out.prompt.enable_thinking = type == std::size_t{1};
  std::uint32_t budget = 0; // cannot be enforced: thoughts end when the model ends them
  reader.integer("budget_tokens", budget, 1, max_int32);
  if (const auto display = reader.choice("display", {"summarized", "omitted"}))
    out.fields.thoughts.shown = *display == 0;
  if (reader.failure()) outer.fail(*reader.failure());
  add_ignored(reader.ignored(), out.fields);
}

void read_stop_sequences(field_reader& reader, std::vector<std::string>& out) {
  const auto list = reader.array("stop_sequences", 0, 16);
  if (!list) return;
  std::size_t i = 0;
  for (const auto value : *list) {
    const auto name = indexed("stop_sequences", i++);
    auto text = value.string();
    if (!text) return reader.fail(name, "must be a string, not " + std::string(kind_of(value)));
    if (text->size() > 1024) return reader.fail(name, "must have at most 1024 bytes");
    if (!text->empty()) out.push_back(*std::move(text));
  }
}

void read_output_config(field_reader& outer, generation_fields& out) {
  const auto fields = outer.object("output_config");
  if (!fields) return;
  field_reader reader(*fields, outer.path_of("output_config"));
  std::string effort;
  if (reader.text("effort", effort, 1, 64)) out.reasoning = "output_config.effort";
  reader.refuse("format", "structured output is not offered");
  if (reader.failure()) outer.fail(*reader.failure());
  add_ignored(reader.ignored(), out);
}

void read_metadata(field_reader& outer, std::string& user) {
  const auto fields = outer.object("metadata");
  if (!fields) return;
  field_reader reader(*fields, outer.path_of("metadata"));
  reader.text("user_id", user, 0, 512);
  if (reader.failure()) outer.fail(*reader.failure());
}

/// Fields of other endpoints that this one would have to ignore.
void refuse_foreign_fields(field_reader& reader, const generation_fields& fields) {
  if (fields.num_choices != 1) reader.fail(unsupported("n", "n: only 1 is offered here"));
  if (fields.beams.width > 0)
    reader.fail(unsupported("use_beam_search",
                            "use_beam_search: is offered on /v1/completions and /v1/chat/completions"));
  if (fields.return_token_ids)
    reader.fail(unsupported("return_token_ids",
                            "return_token_ids: is offered on /v1/completions and /v1/chat/completions"));
  reader.refuse("stop", "use stop_sequences");
  reader.refuse("container", "no tools are run here");
  reader.refuse("mcp_servers", "no tools are run here");
  reader.refuse("context_management", "contexts are never compacted");
  reader.accept({"cache_control", "speed", "inference_geo"}); // where and how fast: no other answer
}

parsed<chat_request> parse(std::string_view body, const request_limits& limits, bool counts) {
  auto fields = parse_object(body, {limits.max_body_bytes, limits.max_json_depth});
  if (!fields) return std::move(fields).failure();
  field_reader reader(*fields, "");
  chat_request request;
  auto& generation = request.fields;
  if (!reader.integer("max_tokens", generation.max_tokens, 1, max_int32) && !counts && !reader.failure())
    reader.fail("max_tokens", "is required");
  read_conversation(reader, limits.max_messages, request.prompt.messages);
  read_tools(reader, request.prompt.tools);
  read_tool_choice(reader, request.prompt);
  float temperature = 1;
  reader.number("temperature", temperature, {0, 1}); // read again below, with the range of the others
  read_generation_fields(reader, limits, generation);
  refuse_foreign_fields(reader, generation);
  read_stop_sequences(reader, generation.stop.stop_strings);
  read_metadata(reader, generation.user);
  read_thinking(reader, request);
  read_output_config(reader, generation);
  if (reader.failure()) return *reader.failure();
  add_ignored(reader.ignored(), generation);
  return request;
}

} // namespace

parsed<chat_request> parse_messages_request(std::string_view body, const request_limits& limits) {
  return parse(body, limits, false);
}

parsed<chat_request> parse_count_request(std::string_view body, const request_limits& limits) {
  return parse(body, limits, true);
}

} // namespace paceline::wire
