#include "protocol/wire/input_items.hpp"

#include "protocol/wire/json_writer.hpp"
#include "protocol/wire/response_items.hpp"

#include <algorithm>
#include <memory>
#include <vector>

namespace paceline::wire {

namespace {

using marks = std::vector<output_json::mark>;

/// A turn's thoughts, its text, or one of its calls.
struct input_item {
  const chat_message* turn = nullptr;
  const tool_call* call = nullptr; ///< null: the item is the text, or the thoughts
  bool is_thoughts = false;
  std::string id;
};

std::vector<input_item> items_of(const std::string& response_id, std::span<const chat_message> turns) {
  std::vector<input_item> items;
  const auto prefix = "in_" + response_id.substr(response_id.find('_') + 1) + "_";
  const auto add = [&](const chat_message& turn, const tool_call* call, bool is_thoughts = false) {
    items.push_back({&turn, call, is_thoughts, prefix + std::to_string(items.size())});
  };
  for (const auto& turn : turns) {
    if (!turn.reasoning.empty()) add(turn, nullptr, true);
    if (turn.content) add(turn, nullptr);
    for (const auto& call : turn.tool_calls) add(turn, &call);
  }
  return items;
}

/// Writes text that is generated while it is sent.
void mark_text(json_writer& out, std::string_view name, const std::string& text, marks& marked) {
  const auto part = std::make_shared<response_part>();
  part->text = text;
  mark(out, name, output_json::content::text, part, marked);
}

void write_item(json_writer& out, const input_item& item, marks& marked) {
  const auto& turn = *item.turn;
  out.begin_object().field("id", item.id).field("status", "completed");
  if (item.is_thoughts) {
    out.field("type", "reasoning").key("summary").begin_array().end_array();
    out.key("content").begin_array().begin_object().field("type", "reasoning_text");
    mark_text(out, "text", turn.reasoning, marked);
    out.end_object().end_array();
  } else if (item.call != nullptr) {
    out.field("type", "function_call").field("call_id", item.call->id).field("name", item.call->name);
    mark_text(out, "arguments", item.call->arguments, marked);
  } else if (turn.role == "tool") {
    out.field("type", "function_call_output").field("call_id", turn.tool_call_id);
    mark_text(out, "output", *turn.content, marked);
  } else {
    const bool is_answer = turn.role == "assistant";
    out.field("type", "message").field("role", turn.role).key("content").begin_array().begin_object();
    out.field("type", is_answer ? "output_text" : "input_text");
    mark_text(out, "text", *turn.content, marked);
    if (is_answer) out.key("annotations").begin_array().end_array();
    out.end_object().end_array();
  }
  out.end_object();
}

} // namespace

std::optional<output_json> input_item_list(const std::string& response_id,
                                           std::span<const chat_message> turns, const item_page& page) {
  auto items = items_of(response_id, turns);
  if (page.newest_first) std::reverse(items.begin(), items.end());
  auto first = items.begin();
  if (!page.after.empty()) {
    first = std::ranges::find(items, page.after, &input_item::id);
    if (first == items.end()) return std::nullopt;
    ++first;
  }
  const auto count = std::min<std::size_t>(page.limit, static_cast<std::size_t>(items.end() - first));
  const std::span shown(first, count);
  json_writer out;
  marks marked;
  out.begin_object().field("object", "list").key("data").begin_array();
  for (const auto& item : shown) write_item(out, item, marked);
  out.end_array();
  out.key("first_id").string_or_null(shown.empty() ? "" : shown.front().id);
  out.key("last_id").string_or_null(shown.empty() ? "" : shown.back().id);
  out.field("has_more", first + static_cast<std::ptrdiff_t>(count) != items.end()).end_object();
  return output_json(out.take(), std::move(marked));
}

} // namespace paceline::wire
