#include "server/template_probe.hpp"

#include <boost/json/array.hpp>

#include <utility>

namespace paceline::server {

namespace {

namespace json = boost::json;

constexpr const char* probe = "paceline_probe"; ///< name of a tool that occurs in no template

json::array probe_tools() {
  const json::object function{
      {"name", probe},
      {"description", "-"},
      {"parameters", json::object{{"type", "object"}, {"properties", json::object{}}}}};
  return {json::object{{"type", "function"}, {"function", function}}};
}

json::object message(const char* role, const char* content) { return {{"role", role}, {"content", content}}; }

/// The rendered text; empty if the template refuses.
std::string text_of(expected<std::string> rendered) {
  return rendered ? *std::move(rendered) : std::string();
}

bool shows_tools(const chat_renderer& render) {
  const auto text =
      text_of(render({{"messages", json::array{message("user", "x")}}, {"tools", probe_tools()}}));
  return text.find(probe) != std::string::npos;
}

call_syntax shown_calls(const chat_renderer& render) {
  // Some templates require ids of nine letters or digits.
  const json::object call{{"id", "probe0001"},
                          {"type", "function"},
                          {"function", {{"name", probe}, {"arguments", {{"a", "b"}}}}}};
  auto calling = message("assistant", "");
  calling["tool_calls"] = json::array{call};
  auto result = message("tool", "y");
  result["tool_call_id"] = "probe0001";
  const auto text =
      render({{"messages", json::array{message("user", "x"), calling, result}}, {"tools", probe_tools()}});
  return text ? wire::call_syntax_of(*text, probe) : call_syntax::none;
}

/// A question rendered with these variables.
std::string question(const chat_renderer& render, json::object variables) {
  variables["messages"] = json::array{message("user", "x")};
  variables["add_generation_prompt"] = true;
  return text_of(render(std::move(variables)));
}

/// The markers of the thoughts that a prompt shows; empty if it shows none.
wire::reasoning_markers thoughts_in(const std::string& text) {
  for (const auto* markers : {&wire::think_markers, &wire::mistral_think_markers})
    if (text.find(markers->open) != std::string::npos) return *markers;
  return {};
}

/// Finds whether the prompt opens a thought, or depends on the variables that templates have for reasoning.
void find_reasoning(const chat_renderer& render, template_traits& found) {
  const auto with = question(render, {{"enable_thinking", true}, {"thinking", true}});
  const auto without = question(render, {{"enable_thinking", false}, {"thinking", false}});
  template_reasoning& reasoning = found.reasoning;
  reasoning.is_switched = with != without;
  reasoning.has_effort =
      question(render, {{"reasoning_effort", "high"}}) != question(render, {{"reasoning_effort", "low"}});
  reasoning.any = reasoning.is_switched || reasoning.has_effort || thoughts_in(question(render, {}));
  if (!reasoning.any) return;
  found.thoughts = thoughts_in(with);
  if (!found.thoughts) found.thoughts = thoughts_in(without);
}

} // namespace

expected<std::string> render_chat(const tokenizer::chat_template& chat,
                                  const tokenizer::special_spellings& spellings, json::object asked) {
  tokenizer::chat_request request;
  for (auto& entry : asked) {
    const auto name = entry.key();
    auto& value = entry.value();
    if (name == "messages")
      request.messages = std::move(value.as_array());
    else if (name == "tools")
      request.tools = std::move(value.as_array());
    else if (name == "add_generation_prompt")
      request.add_generation_prompt = value.as_bool();
    else
      request.template_arguments[name] = std::move(value);
  }
  const auto variables = tokenizer::request_variables(std::move(request), spellings);
  if (!variables) return variables.error();
  return chat.render(*variables);
}

template_traits probe_template(const chat_renderer& render) {
  template_traits found;
  found.takes_tools = shows_tools(render);
  if (found.takes_tools) found.calls = shown_calls(render);
  find_reasoning(render, found);
  return found;
}

wire::output_format output_format_of(const template_traits& traits, std::string_view call_parser,
                                     std::string_view reasoning_parser) {
  wire::output_format format{traits.thoughts, traits.calls};
  for (std::size_t i = 0; i < call_syntax_names.size(); ++i)
    if (call_parser == call_syntax_names[i]) format.calls = static_cast<call_syntax>(i);
  if (reasoning_parser == "none")
    format.reasoning = {};
  else if (format.calls == call_syntax::harmony)
    format.reasoning = wire::harmony_markers;
  else if (reasoning_parser == "think")
    format.reasoning = wire::think_markers;
  else if (reasoning_parser == "mistral")
    format.reasoning = wire::mistral_think_markers;
  return format;
}

} // namespace paceline::server
