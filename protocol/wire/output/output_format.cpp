#include "protocol/wire/output/output_format.hpp"

#include "protocol/wire/json_view.hpp"
#include "protocol/wire/output/blanks.hpp"

#include <algorithm>
#include <cstdint>

namespace paceline::wire {

namespace {

bool has(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

/// What the values of a schema are: a set of these. The empty set: the schema does not say it.
using values = unsigned;
constexpr values null_value = 1, text_value = 2, other_value = 4;

template <class Elements, class Kind>
values any_of(const Elements& elements, Kind kind) {
  values found = 0;
  for (const auto one : elements) found |= kind(one);
  return found;
}

values values_of_type(json_view type) {
  return type.is_string("string") ? text_value : type.is_string("null") ? null_value : other_value;
}

values value_itself(json_view value) {
  return value.is_string() ? text_value : value.is_null() ? null_value : other_value;
}

/// Finds the values of the schemas of one tool's parameters. Each definition is read once, because many
/// references to one another would take exponential time.
class parameter_values {
 public:
  /// `root`: the schema of all arguments, whose definitions the others may refer to.
  explicit parameter_values(json_view root) {
    for (const std::string place : {"$defs", "definitions"})
      if (const auto listed = member_of(root, place))
        for (const auto one : listed->members())
          definitions_["#/" + place + "/" + one.name()].schema = one.value;
  }

  tool_signatures::value of(json_view schema) {
    using value = tool_signatures::value;
    const auto found = said_by(schema, 0);
    return found == text_value                  ? value::text
           : found == (text_value | null_value) ? value::text_or_null
                                                : value::any;
  }

 private:
  struct definition {
    json_view schema{"null"};
    std::optional<values> found;
  };

  /// By `const`, `enum`, `type`, a reference, a part of `allOf`, or the branches of `anyOf` and `oneOf`, as
  /// optional parameters have them.
  values said_by(json_view schema, int depth) {
    constexpr int most_levels = 8;
    if (!schema.is_object() || depth > most_levels) return 0;
    if (const auto value = member_of(schema, "const")) return value_itself(*value);
    if (const auto listed = member_of(schema, "enum")) return any_of(listed->elements(), value_itself);
    if (const auto type = member_of(schema, "type"))
      return type->is_string() ? values_of_type(*type) : any_of(type->elements(), values_of_type);
    if (const auto reference = member_of(schema, "$ref"))
      if (const auto found = said_by_definition(*reference, depth); found != 0) return found;
    if (const auto parts = member_of(schema, "allOf"))
      for (const auto part : parts->elements())
        if (const auto found = said_by(part, depth + 1); found != 0) return found;
    for (const std::string_view name : {"anyOf", "oneOf"})
      if (const auto branches = member_of(schema, name))
        return any_of(branches->elements(), [&](json_view one) {
          const auto found = said_by(one, depth + 1);
          return found != 0 ? found : other_value;
        });
    return 0;
  }

  values said_by_definition(json_view reference, int depth) {
    const auto place = definitions_.find(reference.string().value_or(""));
    if (place == definitions_.end()) return 0;
    auto& [schema, found] = place->second;
    if (!found) {
      found = 0; // for references to itself
      found = said_by(schema, depth + 1);
    }
    return *found;
  }

  std::map<std::string, definition, std::less<>> definitions_; ///< by the reference to them
};

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
  if (has(text, "[TOOL_CALLS]" + name) || has(text, "[TOOL_CALLS][{") || has(text, "[TOOL_CALLS] [{"))
    return call_syntax::mistral;
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
    parameter_values allowed(*schema);
    for (const auto one : properties->members()) known[one.name()] = allowed.of(one.value);
  }
}

tool_signatures::value tool_signatures::values_of(std::string_view function,
                                                  std::string_view parameter) const {
  const auto known = functions_.find(function);
  if (known == functions_.end()) return value::any;
  const auto found = known->second.find(parameter);
  return found == known->second.end() ? value::any : found->second;
}

bool ends_inside_reasoning(std::string_view prompt, const reasoning_markers& markers) {
  if (!markers) return false;
  const auto last = prompt.find_last_not_of(blanks);
  if (last == std::string_view::npos) return false;
  const auto text = prompt.substr(0, last + 1);
  return text.size() >= markers.open.size() && text.substr(text.size() - markers.open.size()) == markers.open;
}

} // namespace paceline::wire
