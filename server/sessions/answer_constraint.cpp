#include "server/sessions/answer_constraint.hpp"

#include "protocol/wire/output/call_schema.hpp"
#include "runtime/grammar/after_spelled_thoughts.hpp"
#include "runtime/grammar/after_thoughts.hpp"
#include "runtime/grammar/alternatives.hpp"
#include "runtime/grammar/schema_grammar.hpp"
#include "runtime/grammar/token_frames.hpp"

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace paceline::server {

namespace {

using wire::api_error;
using wire::parsed;
using constraint = std::shared_ptr<const token_constraint>;
using source = grammar::grammar_source;

/// Refuses fields that contradict the constraint of `field`, because the constraint determines when an output
/// ends and what it begins with.
std::optional<api_error> conflict(const wire::generation_fields& fields, const std::string& field) {
  const std::pair<bool, const char*> others[] = {{fields.beams.width > 0, "use_beam_search"},
                                                 {fields.first_target.has_value(), "first_target"},
                                                 {fields.stop.min_tokens > 0, "min_tokens"},
                                                 {fields.stop.ignore_eos, "ignore_eos"}};
  for (const auto& [is_there, name] : others)
    if (is_there) return wire::unsupported(name, std::string(name) + ": is not offered with " + field);
  return std::nullopt;
}

/// The refusal of a grammar or schema. `place`: what is refused, followed by the reason.
api_error refusal(const std::string& field, const std::string& place, const error& why) {
  const auto message = place + ": " + why.message();
  return why.code() == errc::unsupported ? wire::unsupported(field, message)
                                         : wire::invalid_value(field, message);
}

parsed<constraint> compile(const model_view& model, const wire::output_constraint& wanted) {
  auto compiled = model.compile(wanted.source);
  if (compiled) return *std::move(compiled);
  return refusal(wanted.field, wanted.field, compiled.error());
}

/// The field that says that an output must be a call, or may be one.
std::string tool_field(const asked_call& call) { return call.demand.required ? "tool_choice" : "tools"; }

using function_list = std::vector<wire::function_schema>;

/// `exact` with the arguments of `loose` for each function whose own schema cannot be enforced. nullopt if
/// there is no such function, or if the schemas are too large together. The conversions cost at most some
/// times as much as that of one schema, however many functions there are.
std::optional<function_list> enforceable(function_list exact, const function_list& loose) {
  grammar::schema_cost kept, refused, most_refused = grammar::most_schema_cost;
  most_refused += grammar::most_schema_cost; // one that is too large alone leaves room for others
  bool is_changed = false;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    if (exact[i].arguments == loose[i].arguments) continue;
    grammar::schema_cost cost;
    if (grammar::schema_to_ebnf(exact[i].arguments, &cost)) {
      kept += cost;
    } else {
      refused += cost;
      exact[i] = loose[i];
      is_changed = true;
    }
    if (!kept.is_within(grammar::most_schema_cost) || !refused.is_within(most_refused)) return std::nullopt;
  }
  return is_changed ? std::optional(std::move(exact)) : std::nullopt;
}

/// The refusal of the first of `wanted` whose own schema is refused. nullopt if there is none, or if it comes
/// behind schemas that are too large together.
std::optional<api_error> refused_function(const function_list& wanted) {
  grammar::schema_cost total;
  for (const auto& one : wanted) {
    grammar::schema_cost cost;
    if (const auto checked = grammar::schema_to_ebnf(one.arguments, &cost); !checked)
      return refusal("tools", "tools: the parameters of \"" + one.name + "\"", checked.error());
    total += cost;
    if (!total.is_within(grammar::most_schema_cost)) break;
  }
  return std::nullopt;
}

/// `make` compiles the calls of some functions. If the arguments' schema of a tool without `strict` cannot be
/// enforced, this tool takes any object. If the schemas are too large together, all such tools do. Errors
/// name the tool whose schema is refused.
template <typename Make>
auto compile_calls(const asked_call& call, const Make& make) {
  const auto callable = [&](bool exact) {
    return wire::callable_functions(call.tools, call.demand.function, exact);
  };
  auto wanted = callable(true);
  if (auto compiled = make(wanted)) return compiled;
  const auto loose = callable(false);
  if (const auto mixed = enforceable(std::move(wanted), loose))
    if (auto compiled = make(*mixed)) return compiled;
  auto compiled = make(loose);
  if (compiled) return compiled;
  if (auto refused = refused_function(loose)) return decltype(compiled)(*std::move(refused));
  return compiled;
}

/// The output is a call in JSON, whatever the model's own syntax.
parsed<constraint> compile_call(const model_view& model, const asked_call& call) {
  return compile_calls(call, [&](const function_list& wanted) {
    return compile(model, {{source::kind::json_schema, wire::call_schema(wanted)}, tool_field(call)});
  });
}

/// The forms that an output may have: an answer, or one call. A null member means that this form is not
/// allowed; at least one is.
struct wanted_output {
  const wire::output_constraint* answer = nullptr;
  const asked_call* call = nullptr;
};

parsed<constraint> compile_output(const model_view& model, const wanted_output& wanted) {
  if (wanted.call == nullptr) return compile(model, *wanted.answer);
  auto call = compile_call(model, *wanted.call);
  if (!call || wanted.answer == nullptr) return call;
  auto answer = compile(model, *wanted.answer);
  if (!answer) return answer;
  return grammar::any_alternative({*std::move(call), *std::move(answer)}, model.limits().vocab_size);
}

constraint behind_thoughts(const model_view& model, constraint answer, bool has_begun) {
  const auto& markers = model.outputs().reasoning;
  if (!markers) return answer;
  const auto open = token_of(model, markers.open);
  const auto close = token_of(model, markers.close);
  const auto& limits = model.limits();
  if (close && (has_begun || open))
    return grammar::after_thoughts(
        std::move(answer), {has_begun ? std::nullopt : open, *close, limits.eos_ids}, limits.vocab_size);
  // Only thoughts that the prompt has opened: a model that does not think and begins with "<" must not be led
  // into them.
  if (!has_begun) return answer;
  return grammar::after_spelled_thoughts(
      std::move(answer), markers.close, limits.eos_ids,
      [&](token_id token) { return model.token_bytes(token); }, limits.vocab_size);
}

/// A message in harmony: the header after <|start|>assistant, and what its text must match.
struct harmony_message {
  std::string header;
  constraint text;
};
using harmony_messages = std::vector<harmony_message>;

/// Each function has its own grammar. All of them together may cost as much as one schema may, whether they
/// are compiled now or known already.
std::optional<api_error> judge_cost(const function_list& wanted, const std::string& field) {
  if (wanted.size() == 1)
    return std::nullopt; // the compilation checks a single function against the same bound
  grammar::schema_cost total;
  for (const auto& one : wanted) {
    grammar::schema_cost cost;
    static_cast<void>(grammar::schema_to_ebnf(one.arguments, &cost)); // the compilation reports an error
    total += cost;
    if (!total.is_within(grammar::most_schema_cost))
      return wire::unsupported(
          field, field + ": the schemas of the tools need too large grammars together, from \"" + one.name +
                     "\" on");
  }
  return std::nullopt;
}

parsed<harmony_messages> compile_harmony_calls(const model_view& model, const asked_call& call) {
  return compile_calls(call, [&](const function_list& wanted) -> parsed<harmony_messages> {
    harmony_messages out;
    if (auto refused = judge_cost(wanted, tool_field(call))) return *std::move(refused);
    for (const auto& one : wanted) {
      auto arguments = compile(model, {{source::kind::json_schema, one.arguments}, tool_field(call)});
      if (!arguments) return std::move(arguments).failure();
      out.push_back({wire::harmony_call_header(one.name), *std::move(arguments)});
    }
    return out;
  });
}

parsed<harmony_messages> compile_messages(const model_view& model, const wanted_output& wanted) {
  harmony_messages out;
  if (wanted.call != nullptr) {
    auto calls = compile_harmony_calls(model, *wanted.call);
    if (!calls) return calls;
    out = *std::move(calls);
  }
  if (wanted.answer == nullptr) return out;
  auto text = compile(model, *wanted.answer);
  if (!text) return std::move(text).failure();
  out.push_back({wire::harmony_final_header, *std::move(text)});
  return out;
}

/// The output is one of `messages`, possibly after thoughts. `inside` means that the prompt has opened them.
parsed<constraint> in_harmony(const model_view& model, const harmony_messages& messages, bool inside) {
  const auto& limits = model.limits();
  const auto frames = [&](const std::string& before) -> parsed<std::vector<grammar::token_frame>> {
    std::vector<grammar::token_frame> out;
    for (const auto& one : messages) {
      auto lead = model.encode(before + one.header, false, true, 1024);
      if (!lead) return wire::from_error(lead.error(), "tools");
      out.push_back({*std::move(lead), one.text});
    }
    return out;
  };
  auto direct = frames("");
  if (!direct) return std::move(direct).failure();
  if (const auto close = token_of(model, wire::harmony_markers.close)) {
    // Every token that ends a message would end the thoughts, and the following message would be
    // unconstrained.
    auto ends = limits.eos_ids;
    for (const auto mark : wire::harmony_ends)
      if (const auto token = token_of(model, std::string(mark)); token && *token != *close)
        ends.push_back(*token);
    auto behind = frames("<|start|>assistant");
    const auto open = model.encode(wire::harmony_markers.open, false, true, 1024);
    if (!behind) return std::move(behind).failure();
    if (!open) return wire::from_error(open.error(), "tools");
    auto thinking = grammar::after_thoughts(grammar::any_frame(*std::move(behind), limits.vocab_size),
                                            {std::nullopt, *close, std::move(ends)}, limits.vocab_size);
    if (inside) return thinking;
    direct->push_back({*open, std::move(thinking)});
  }
  return grammar::any_frame(*std::move(direct), limits.vocab_size);
}

} // namespace

std::optional<token_id> token_of(const model_view& model, const std::string& marker) {
  const auto tokens = model.encode(marker, false, true, 2);
  return tokens && tokens->size() == 1 ? std::optional(tokens->front()) : std::nullopt;
}

parsed<constraint> constrain_answer(const model_view& model, const wire::generation_fields& fields,
                                    const wire::output_plan& plan, const asked_call* call) {
  const bool needs_call = call != nullptr && call->demand.required;
  if (!fields.constraint && !needs_call) return constraint();
  if (auto refused = conflict(fields, fields.constraint ? fields.constraint->field : "tool_choice"))
    return *std::move(refused);
  const wanted_output wanted{needs_call ? nullptr : &*fields.constraint,
                             plan.calls != call_syntax::none ? call : nullptr};
  if (plan.in_harmony) {
    auto messages = compile_messages(model, wanted);
    if (!messages) return std::move(messages).failure();
    return in_harmony(model, *messages, plan.begins_inside_reasoning);
  }
  auto compiled = compile_output(model, wanted);
  if (!compiled || call == nullptr) return compiled;
  return behind_thoughts(model, *std::move(compiled), plan.begins_inside_reasoning);
}

} // namespace paceline::server
