#include "server/sessions/answer_constraint.hpp"

#include "protocol/wire/output/call_schema.hpp"
#include "runtime/grammar/after_thoughts.hpp"

#include <optional>
#include <string>
#include <utility>

namespace paceline::server {

namespace {

using wire::api_error;
using wire::parsed;
using constraint = std::shared_ptr<const token_constraint>;

/// Fields that contradict the constraint of `field`: it says when an output ends, and what it begins with.
std::optional<api_error> conflict(const wire::generation_fields& fields, const std::string& field) {
  const std::pair<bool, const char*> others[] = {{fields.beams.width > 0, "use_beam_search"},
                                                 {fields.first_target.has_value(), "first_target"},
                                                 {fields.stop.min_tokens > 0, "min_tokens"},
                                                 {fields.stop.ignore_eos, "ignore_eos"}};
  for (const auto& [is_there, name] : others)
    if (is_there) return wire::unsupported(name, std::string(name) + ": is not offered with " + field);
  return std::nullopt;
}

parsed<constraint> compile(const model_view& model, const wire::output_constraint& wanted) {
  auto compiled = model.compile(wanted.source);
  if (compiled) return *std::move(compiled);
  const auto message = wanted.field + ": " + compiled.error().message();
  if (compiled.error().code() == errc::unsupported) return wire::unsupported(wanted.field, message);
  return wire::invalid_value(wanted.field, message);
}

/// The output is a call in JSON, whatever the model's own syntax. Arguments of tools that do not ask for it
/// by `strict` are any objects where their schema cannot be enforced.
parsed<constraint> compile_call(const model_view& model, const asked_call& call) {
  using source = grammar::grammar_source;
  const auto schema = [&](bool exact) {
    return wire::output_constraint{
        {source::kind::json_schema, wire::call_schema(call.tools, call.demand.function, exact)},
        "tool_choice"};
  };
  auto compiled = compile(model, schema(true));
  return compiled ? std::move(compiled) : compile(model, schema(false));
}

/// The only token of a marker; nullopt if it has several.
std::optional<token_id> token_of(const model_view& model, const std::string& marker) {
  const auto tokens = model.encode(marker, false, true, 2);
  return tokens && tokens->size() == 1 ? std::optional(tokens->front()) : std::nullopt;
}

constraint behind_thoughts(const model_view& model, constraint answer, bool has_begun) {
  const auto& markers = model.outputs().reasoning;
  if (!markers) return answer;
  const auto open = token_of(model, markers.open);
  const auto close = token_of(model, markers.close);
  if (!open || !close) return answer;
  const auto& limits = model.limits();
  return grammar::after_thoughts(std::move(answer), {has_begun ? std::nullopt : open, *close, limits.eos_ids},
                                 limits.vocab_size);
}

} // namespace

parsed<constraint> constrain_answer(const model_view& model, const wire::generation_fields& fields,
                                    const wire::output_plan& plan, const asked_call* call) {
  const bool wants_call = call != nullptr && call->demand.required;
  if (!fields.constraint && !wants_call) return constraint();
  // A demanded call comes before the format, which is that of a text.
  const std::string field = wants_call ? "tool_choice" : fields.constraint->field;
  if (!wants_call && plan.calls != call_syntax::none)
    return wire::unsupported("tools",
                             "tools: are not offered with " + field + "; the output could not be a call");
  if (auto refused = conflict(fields, field)) return *std::move(refused);
  auto compiled = wants_call ? compile_call(model, *call) : compile(model, *fields.constraint);
  if (!compiled || call == nullptr) return compiled;
  return behind_thoughts(model, *std::move(compiled), plan.begins_inside_reasoning);
}

} // namespace paceline::server
