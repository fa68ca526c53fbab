#include "protocol/wire/output/output_format.hpp"

#include "protocol/wire/json_view.hpp"
#include "protocol/wire/output/blanks.hpp"

namespace paceline::wire {

namespace {

bool has(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

/// True for {"type": "string"}, and for a list of types that are "string" or "null".
bool is_text_schema(json_view schema) {
  const auto type = schema.is_object() ? member_of(schema, "type") : std::nullopt;
  if (!type) return false;
  if (type->is_string()) return type->is_string("string");
  bool text = false;
  for (const auto one : type->elements()) {
    if (one.is_string("string"))
      text = true;
    else if (!one.is_string("null"))
      return false;
  }
  return text;
}

} // namespace

std::string harmony_call_header(const std::string& function) {
  return "<|channel|>commentary to=functions." + function + " <|constrain|>json<|message|>";
}

call_syntax call_syntax_of(std::string_view text, std::string_view function) {
  const std::string name(function);
  const auto json = "{\"name\": \"" + name + "\", ";
  if (has(text, "to=functions." + name) && has(text, "<|channel|>")) return call_syntax::harmony;
  if (has(text, "<function=" + name + ">")) return call_syntax::qwen3_coder;
  if (has(text, "<tool_call>" + name) && has(text, "<arg_key>")) return call_syntax::glm;
  if (has(text, "<|tool_call>call:" + name)) return call_syntax::gemma4;
  if (has(text, "<|tool_call_start|>[" + name + "(")) return call_syntax::lfm2;
  if (has(text, "[TOOL_CALLS]" + name) || has(text, "[TOOL_CALLS][{")) return call_syntax::mistral;
  if (has(text, "<tool_call>\n" + json) || has(text, "<tool_call>" + json)) return call_syntax::hermes;
  if (has(text, json + "\"parameters\": ")) return call_syntax::llama3;
  return call_syntax::none;
}

bool marks_calls_by_special_tokens(call_syntax syntax) noexcept {
  return syntax == call_syntax::mistral || syntax == call_syntax::lfm2 || syntax == call_syntax::gemma4 ||
         syntax == call_syntax::llama3 || syntax == call_syntax::harmony;
}

tool_signatures::tool_signatures(const std::string& tools) {
  if (tools.empty()) return;
  for (const auto tool : json_view(tools).elements()) {
    const auto function = member_of(tool, "function");
    const auto name = function ? member_of(*function, "name") : std::nullopt;
    if (!name || !name->is_string()) continue;
    auto& known = functions_[*name->string()];
    const auto schema = member_of(*function, "parameters");
    const auto properties = schema ? member_of(*schema, "properties") : std::nullopt;
    if (!properties) continue;
    for (const auto one : properties->members()) known[one.name()] = is_text_schema(one.value);
  }
}

bool tool_signatures::takes_text(std::string_view function, std::string_view parameter) const {
  const auto known = functions_.find(function);
  if (known == functions_.end()) return false;
  const auto found = known->second.find(parameter);
  return found != known->second.end() && found->second;
}

bool ends_inside_reasoning(std::string_view prompt, const reasoning_markers& markers) {
  if (!markers) return false;
  const auto last = prompt.find_last_not_of(blanks);
  if (last == std::string_view::npos) return false;
  const auto text = prompt.substr(0, last + 1);
  return text.size() >= markers.open.size() && text.substr(text.size() - markers.open.size()) == markers.open;
}

} // namespace paceline::wire
