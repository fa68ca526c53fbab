#include "protocol/wire/harmony_prompt.hpp"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>

#include <algorithm>
#include <utility>

namespace paceline::wire {

namespace {

namespace json = boost::json;

bool has_role(const json::object& message, const char* role) {
  const auto* found = message.if_contains("role");
  return found != nullptr && found->is_string() && found->get_string() == role;
}

/// Adds one message for each call of `message`, followed by its result. `results` are the messages of tools
/// that follow. Those that answer no call are added at the end.
void divide_calls(json::object message, json::array results, json::array& out) {
  auto calls = std::move(message["tool_calls"].as_array());
  for (auto& call : calls) {
    const auto id = call.as_object()["id"];
    message["tool_calls"] = json::array{std::move(call)};
    out.push_back(message);
    for (const auto* field : {"content", "reasoning_content", "thinking"}) message.erase(field);
    const auto result = std::ranges::find_if(results, [&](const json::value& one) {
      const auto* answered = one.as_object().if_contains("tool_call_id");
      return answered != nullptr && *answered == id;
    });
    if (result == results.end()) continue;
    out.push_back(std::move(*result));
    results.erase(result);
  }
  for (auto& one : results) out.push_back(std::move(one));
}

} // namespace

void fit_to_harmony(json::object& variables) {
  auto& messages = variables["messages"].as_array();
  json::array out;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    auto& message = messages[i].as_object();
    const auto* content = message.if_contains("content");
    const bool has_content = content != nullptr && content->is_string() && !content->get_string().empty();
    if (content != nullptr && content->is_null()) message.erase("content");
    if (!has_role(message, "assistant") || !message.contains("tool_calls")) {
      out.push_back(std::move(message));
      continue;
    }
    if (has_content) message.erase("thinking");
    json::array results;
    for (; i + 1 < messages.size() && has_role(messages[i + 1].as_object(), "tool"); ++i)
      results.push_back(std::move(messages[i + 1]));
    divide_calls(std::move(message), std::move(results), out);
  }
  messages = std::move(out);
  auto* tools = variables.if_contains("tools");
  if (tools == nullptr || !tools->is_array()) return;
  for (auto& tool : tools->get_array()) {
    auto& function = tool.as_object()["function"].as_object();
    if (!function.contains("description")) function["description"] = "";
  }
}

} // namespace paceline::wire
