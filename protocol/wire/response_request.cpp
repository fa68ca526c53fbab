#include "protocol/wire/client_requests.hpp"
#include "protocol/wire/constraint_fields.hpp"
#include "protocol/wire/field_reader.hpp"
#include "protocol/wire/fields/field_table.hpp"
#include "protocol/wire/json_writer.hpp"
#include "protocol/wire/unsupported_fields.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

namespace paceline::wire {

namespace {

/// The text of a `reasoning` item, which clients send back.
void read_thoughts(field_reader& reader, std::string& out) {
  const auto content = reader.find(spec("input[].content"));
  if (!content || !content->is_array()) return; // the item is encrypted, or has only a summary
  reader.for_each_object("content", content->elements(), [&](field_reader& part) {
    std::string type, text;
    part.text(spec("input[].content[].type"), type);
    part.text(spec("input[].content[].text"), text);
    if (type == "reasoning_text") out += text;
  });
}

/// Reads an item of `input`: a message, a function call of an earlier turn, the result of one, or a reference
/// to an item, whose id it appends to `references`. Thoughts are a turn without text and calls. The next item
/// belongs to them.
chat_message read_item(field_reader& reader, std::size_t place, std::vector<item_reference>& references) {
  std::string type = "message";
  const bool has_type = reader.text(spec("input[].type"), type);
  chat_message message;
  // OpenAI's schema lets references leave out their type.
  const bool is_only_id = !has_type && reader.find(spec("input[].id")) &&
                          !reader.find(spec("input[].role")) && !reader.find(spec("input[].content"));
  if (type == "item_reference" || is_only_id) {
    item_reference reference{{}, place};
    message.role = "assistant";
    if (!reader.text(spec("input[].id"), reference.id)) reader.fail("id", "is required");
    references.push_back(std::move(reference));
    reader.check_unread("input[]", in::responses);
    return message;
  }
  reader.accept(spec("input[].id"));
  if (type == "reasoning") {
    message.role = "assistant";
    read_thoughts(reader, message.reasoning);
    reader.check_unread("input[]", in::responses);
    return message;
  }
  std::optional<std::string> content;
  read_content(reader, content);
  if (type == "message") {
    const auto role = reader.choice(spec("input[].role"));
    if (!role) reader.fail("role", "is required");
    if (!role) return message;
    static constexpr const char* template_roles[] = {"system", "system", "user", "assistant"};
    message.role = template_roles[*role];
    message.content = std::move(content);
    if (!message.content) reader.fail("content", "is required");
    reader.accept(spec("input[].status"));
  } else if (type == "function_call") {
    tool_call call;
    message.role = "assistant";
    reader.text(spec("input[].call_id"), call.id);
    if (!reader.text(spec("input[].name"), call.name)) reader.fail("name", "is required");
    reader.text(spec("input[].arguments"), call.arguments);
    replace_broken_arguments(reader, call);
    message.tool_calls.push_back(std::move(call));
  } else if (type == "function_call_output") {
    message.role = "tool";
    reader.text(spec("input[].call_id"), message.tool_call_id);
    read_text_parts(reader, spec("input[].output"), message.content);
    if (!message.content) reader.fail("output", "is required");
  } else {
    reader.fail(unsupported(reader.path_of("type"),
                            reader.path_of("type") + ": items of type \"" + type + "\" are not offered"));
  }
  reader.check_unread("input[]", in::responses);
  return message;
}

bool is_only_thoughts(const chat_message& turn) {
  return turn.role == "assistant" && !turn.content && turn.tool_calls.empty();
}

/// Adds a turn. A call continues the assistant's previous turn, because the model wrote both. Every item of
/// the assistant continues its thoughts. Thoughts without a following turn of the assistant are dropped.
void add_turn(chat_message turn, std::vector<chat_message>& out) {
  if (!out.empty() && is_only_thoughts(out.back())) {
    auto thoughts = std::move(out.back().reasoning);
    out.pop_back();
    if (!turn.reasoning.empty() && !thoughts.empty()) thoughts += "\n\n";
    if (turn.role == "assistant") turn.reasoning.insert(0, thoughts);
  }
  const bool goes_on = !turn.tool_calls.empty() && !out.empty() && out.back().role == "assistant";
  if (!goes_on) return out.push_back(std::move(turn));
  auto& last = out.back();
  if (!last.reasoning.empty() && !turn.reasoning.empty()) last.reasoning += "\n\n";
  last.reasoning += turn.reasoning;
  std::move(turn.tool_calls.begin(), turn.tool_calls.end(), std::back_inserter(last.tool_calls));
}

/// The turns of a conversation from those of its items.
std::vector<chat_message> joined_turns(std::vector<chat_message> items) {
  std::vector<chat_message> turns;
  for (auto& item : items) add_turn(std::move(item), turns);
  if (!turns.empty() && is_only_thoughts(turns.back())) turns.pop_back();
  return turns;
}

/// A string is one user message.
void read_input(field_reader& outer, std::size_t max_items, response_request& request) {
  auto& out = request.input;
  const auto& row = spec("input");
  const auto input = outer.find(row);
  if (!input) return;
  if (auto text = input->string()) {
    out.push_back({"user", *std::move(text), "", {}, ""});
    return;
  }
  if (!input->is_array()) return outer.fail("input", "must be a string or an array of items");
  const auto items = outer.array(row.name, 0, max_items);
  if (!items) return;
  argument_budget budget;
  outer.for_each_object("input", *items, [&](field_reader& reader) {
    out.push_back(read_item(reader, out.size(), request.references));
    budget.take(reader, out.back());
  });
  if (request.references.empty()) out = joined_turns(std::move(out));
}

void read_text_options(field_reader& outer, response_request& out) {
  const auto fields = outer.object(spec("text"));
  if (!fields) return;
  field_reader reader(*fields, outer.path_of("text"));
  if (const auto format = reader.find(spec("text.format"))) out.text_format = compact(*format);
  read_text_format(reader, out.fields.constraint);
  std::string verbosity = "medium";
  if (reader.text(spec("text.verbosity"), verbosity) && verbosity != "medium")
    reader.fail(unsupported("text.verbosity", "text.verbosity: only \"medium\" is offered"));
  outer.adopt(reader);
}

void read_include(field_reader& reader, bool& logprobs) {
  const auto include = reader.array(spec("include"));
  if (!include) return;
  for (const auto name : *include) {
    if (name.is_string("message.output_text.logprobs"))
      logprobs = true;
    else if (!name.is_string("reasoning.encrypted_content")) // there are no reasoning items to include
      return reader.fail(unsupported("include", "include: only message.output_text.logprobs is offered"));
  }
}

void read_options(field_reader& outer, response_request& out) {
  const auto fields = outer.object(spec("paceline"));
  if (!fields) return;
  field_reader reader(*fields, outer.path_of("paceline"));
  read_reply_options(reader, out.fields);
  reader.boolean(spec("paceline.resumable"), out.options.resumable);
  if (const auto point = reader.object(spec("paceline.resume"))) {
    field_reader inner(*point, reader.path_of("resume"));
    resume_point resume;
    if (!inner.text(spec("paceline.resume.response_id"), resume.response_id))
      inner.fail("response_id", "is required");
    inner.integer(spec("paceline.resume.next_token"), resume.next_token);
    if (inner.failure()) reader.fail(*inner.failure());
    out.options.resume = std::move(resume);
  }
  outer.adopt(reader);
}

/// Reads the reasoning options. Which of them are refused depends on the model.
void read_reasoning(field_reader& outer, effort_wish& out) {
  const auto reasoning = outer.object(spec("reasoning"));
  if (!reasoning) return;
  field_reader reader(*reasoning, outer.path_of("reasoning"));
  read_effort(reader, spec("reasoning.effort"), out);
  reader.accept(spec("reasoning.summary"));
  reader.accept(spec("reasoning.generate_summary"));
  outer.adopt(reader);
}

/// Reads options that allow only one value.
void read_single_values(field_reader& reader) {
  bool background = false;
  if (reader.boolean(spec("background"), background) && background)
    reader.fail(unsupported("background", "background: only false is offered; see paceline.resumable"));
  std::string truncation = "disabled";
  if (reader.text(spec("truncation"), truncation) && truncation != "disabled")
    reader.fail(unsupported("truncation", "truncation: prompts are never truncated"));
}

void read_metadata(field_reader& outer, std::string& out) {
  const auto fields = outer.object(spec("metadata", in::responses));
  if (!fields) return;
  std::vector<std::pair<std::string, std::string>> kept;
  for (const auto member : fields->members()) {
    auto name = member.name();
    auto value = member.value.string();
    const auto same =
        std::find_if(kept.begin(), kept.end(), [&](const auto& one) { return one.first == name; });
    if (!value || value->size() > 512 || name.size() > 64 || (same == kept.end() && kept.size() == 16))
      return outer.fail("metadata", "holds at most 16 strings of 512 bytes under names of 64");
    if (same != kept.end())
      same->second = *std::move(value);
    else
      kept.emplace_back(std::move(name), *std::move(value));
  }
  json_writer text;
  text.begin_object();
  for (const auto& [name, value] : kept) text.field(name, value);
  out = text.end_object().take();
}

/// Reads the fields that are the same for HTTP and WebSocket.
void read_response_request(field_reader& reader, const request_limits& limits, response_request& out) {
  read_input(reader, limits.max_messages, out);
  reader.text(spec("instructions"), out.instructions);
  reader.text(spec("previous_response_id"), out.previous_response_id);
  read_tools(reader, out.tools, out.parallel_tool_calls, out.demand);
  read_reasoning_options(reader, out.fields.thoughts);
  read_metadata(reader, out.metadata);
  reader.text(spec("safety_identifier", in::responses), out.safety_identifier);
  reader.text(spec("prompt_cache_key", in::responses), out.prompt_cache_key);
  read_generation_fields(reader, limits, out.fields);
  refuse_several_outputs(reader, out.fields);
  read_max_tokens(reader, spec("max_output_tokens"), 1, out.fields);
  reader.boolean(spec("store", in::responses), out.store);
  reader.boolean(spec("generate"), out.generate);
  read_constraint(reader, out.fields.constraint);
  read_text_options(reader, out);
  bool logprobs = false;
  read_include(reader, logprobs);
  std::uint32_t num_top = 0;
  if (reader.integer(spec("top_logprobs", in::responses), num_top) && num_top > 0) logprobs = true;
  if (logprobs) out.num_logprobs = num_top;
  out.fields.sampling.num_logprobs = out.num_logprobs;
  read_options(reader, out);
  read_reasoning(reader, out.fields.effort);
  read_single_values(reader);
  if (out.input.empty() && out.previous_response_id.empty() && !out.options.resume)
    reader.fail("input", "is required");
}

} // namespace

std::optional<api_error> resolve_references(response_request& request, std::size_t max_bytes,
                                            const item_lookup& find) {
  if (request.references.empty()) return std::nullopt;
  std::size_t num_bytes = 0;
  // Each item is read once: its arguments are parsed, and those that are left out count for nothing below.
  std::map<std::string, std::optional<chat_message>> known;
  for (const auto& reference : std::exchange(request.references, {})) {
    const auto field = indexed("input", reference.place) + ".id";
    const auto [place, is_new] = known.try_emplace(reference.id);
    if (is_new) place->second = find(reference.id);
    const auto& turn = place->second;
    if (!turn)
      return api_error{404,
                       "not_found_error",
                       "item_not_found",
                       field + ": no stored response has the item \"" + reference.id + "\"",
                       field,
                       0};
    num_bytes += text_bytes({&*turn, 1});
    if (num_bytes > max_bytes)
      return invalid_value(field, field + ": names, with the references before it, items of more than " +
                                      std::to_string(max_bytes) + " bytes");
    request.input[reference.place] = *turn;
  }
  if (count_argument_values(request.input) > max_tree_values)
    return invalid_value("input", "input: the calls have more than " + std::to_string(max_tree_values) +
                                      " values in their arguments");
  request.input = joined_turns(std::move(request.input));
  if (request.input.empty() && request.previous_response_id.empty())
    return invalid_value("input", "input: is required");
  return std::nullopt;
}

parsed<response_request> parse_response_request(std::string_view body, const request_limits& limits) {
  auto fields = parse_object(body, {limits.max_body_bytes, limits.max_json_depth});
  if (!fields) return std::move(fields).failure();
  field_reader reader(*fields, "");
  response_request request;
  read_response_request(reader, limits, request);
  refuse_unsupported(reader, in::responses);
  if (reader.failure()) return *reader.failure();
  add_ignored(reader.ignored(), request.fields);
  return request;
}

std::variant<client_frame, refused_frame> parse_client_frame(std::string_view text,
                                                             const request_limits& limits) {
  auto fields = parse_object(text, {limits.max_body_bytes, limits.max_json_depth});
  if (!fields) return refused_frame{"", std::move(fields).failure()};
  field_reader reader(*fields, "");
  client_frame frame;
  reader.text(spec("stream_id", in::frames), frame.stream_id);
  const auto type = reader.choice(spec("type"));
  if (!type) reader.fail("type", "is required");
  reader.accept(spec("event_id"));
  if (type == std::size_t{1}) {
    frame.what = client_frame::kind::cancel;
    if (!reader.text(spec("response_id"), frame.response_id)) reader.fail("response_id", "is required");
  } else if (type) {
    bool stream = true; // openai-agents sends this field in every frame
    if (reader.boolean(spec("stream", in::frames), stream) && !stream)
      reader.fail(unsupported("stream", "stream: responses over WebSocket are always streamed"));
    frame.create.fields.stream = true; // before the fields that are only allowed with it
    read_response_request(reader, limits, frame.create);
    refuse_unsupported(reader, in::frames);
  }
  if (reader.failure()) return refused_frame{frame.stream_id, *reader.failure()};
  add_ignored(reader.ignored(), frame.create.fields);
  return frame;
}

} // namespace paceline::wire
