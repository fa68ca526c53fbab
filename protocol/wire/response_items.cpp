#include "protocol/wire/response_items.hpp"

#include "protocol/wire/field_reader.hpp"

namespace paceline::wire {

using kind = response_part::kind;
using content = output_json::content;

namespace {

/// Writes the members that a new item and a complete one share.
json_writer& begin_item(json_writer& out, const response_part& item, std::string_view status) {
  static constexpr const char* types[] = {"message", "reasoning", "function_call"};
  out.begin_object().field("id", item.id).field("type", types[static_cast<std::size_t>(item.what)]);
  out.field("status", status);
  if (item.what == kind::message) out.field("role", "assistant");
  if (item.what == kind::reasoning) out.key("summary").begin_array().end_array();
  if (item.what == kind::call) out.field("call_id", item.call_id).field("name", item.name);
  return out;
}

} // namespace

void mark(json_writer& out, std::string_view name, content what,
          const std::shared_ptr<const response_part>& part, std::vector<output_json::mark>& marked) {
  out.key(name).raw("");
  marked.push_back({out.size(), what, part});
}

void write_new_item(json_writer& out, const response_part& item) {
  begin_item(out, item, "in_progress");
  if (item.what == kind::call)
    out.field("arguments", "");
  else
    out.key("content").begin_array().end_array();
  out.end_object();
}

void write_item(json_writer& out, const std::shared_ptr<const response_part>& item,
                std::vector<output_json::mark>& marked) {
  begin_item(out, *item, item->is_whole ? "completed" : "incomplete");
  if (item->what == kind::call) {
    mark(out, "arguments", content::text, item, marked);
  } else {
    out.key("content").begin_array();
    write_content(out, item, marked);
    out.end_array();
  }
  out.end_object();
}

void write_content(json_writer& out, const std::shared_ptr<const response_part>& item,
                   std::vector<output_json::mark>& marked) {
  const bool is_message = item->what == kind::message;
  out.begin_object().field("type", is_message ? "output_text" : "reasoning_text");
  mark(out, "text", content::text, item, marked);
  if (is_message) {
    out.key("annotations").begin_array().end_array();
    mark(out, "logprobs", content::scores, item, marked);
  }
  out.end_object();
}

void add_to_turn(const response_part& item, chat_message& turn) {
  if (item.what == kind::reasoning) turn.reasoning += (turn.reasoning.empty() ? "" : "\n\n") + item.text;
  if (item.what == kind::message) turn.content.emplace(turn.content.value_or("") + item.text);
  if (item.what != kind::call) return;
  // Templates receive arguments as a tree. Arguments that are none, as of a call that was cut off, are left
  // out.
  const bool valid = static_cast<bool>(parse_object(item.text));
  turn.tool_calls.push_back({item.call_id, item.name, valid ? item.text : "{}"});
}

std::string response_of_item(std::string_view item_id) {
  const auto begin = item_id.find('_') + 1; // "fc_1" and "fc_1_2" are of "resp_1"
  return "resp_" + std::string(item_id.substr(begin, item_id.find('_', begin) - begin));
}

std::string_view delta_event(kind what) noexcept {
  if (what == kind::reasoning) return "response.reasoning_text.delta";
  return what == kind::call ? "response.function_call_arguments.delta" : "response.output_text.delta";
}

std::string_view done_event(kind what) noexcept {
  if (what == kind::reasoning) return "response.reasoning_text.done";
  return what == kind::call ? "response.function_call_arguments.done" : "response.output_text.done";
}

} // namespace paceline::wire
