#include "server/sessions/answer_constraint.hpp"

#include "runtime/grammar/after_thoughts.hpp"

#include <optional>
#include <string>
#include <utility>

namespace paceline::server {

namespace {

using wire::api_error;

/// Fields that contradict a constraint: it says when an output ends, and what it begins with.
std::optional<api_error> conflict(const wire::generation_fields& fields, const wire::output_plan& plan) {
  const std::string with = ": is not offered with " + fields.constraint->field;
  if (plan.calls != call_syntax::none)
    return wire::unsupported("tools", "tools" + with + "; the output could not be a call");
  if (fields.beams.width > 0) return wire::unsupported("use_beam_search", "use_beam_search" + with);
  if (fields.first_target) return wire::unsupported("first_target", "first_target" + with);
  if (fields.stop.min_tokens > 0) return wire::unsupported("min_tokens", "min_tokens" + with);
  if (fields.stop.ignore_eos) return wire::unsupported("ignore_eos", "ignore_eos" + with);
  return std::nullopt;
}

/// The only token of a marker; nullopt if it has several.
std::optional<token_id> token_of(const model_view& model, const std::string& marker) {
  const auto tokens = model.encode(marker, false, true, 2);
  return tokens && tokens->size() == 1 ? std::optional(tokens->front()) : std::nullopt;
}

} // namespace

wire::parsed<std::shared_ptr<const token_constraint>> constrain_answer(const model_view& model,
                                                                       const wire::generation_fields& fields,
                                                                       const wire::output_plan& plan,
                                                                       bool chat) {
  using constraint = std::shared_ptr<const token_constraint>;
  if (!fields.constraint) return constraint();
  if (auto refused = conflict(fields, plan)) return *std::move(refused);
  const auto& field = fields.constraint->field;
  auto compiled = model.compile(fields.constraint->source);
  if (!compiled) {
    const auto message = field + ": " + compiled.error().message();
    if (compiled.error().code() == errc::unsupported) return wire::unsupported(field, message);
    return wire::invalid_value(field, message);
  }
  const auto& markers = model.outputs().reasoning;
  if (!chat || !markers) return *std::move(compiled);
  const auto open = token_of(model, markers.open);
  const auto close = token_of(model, markers.close);
  if (!open || !close) return *std::move(compiled);
  const auto& limits = model.limits();
  return grammar::after_thoughts(*std::move(compiled),
                                 {plan.begins_inside_reasoning ? std::nullopt : open, *close, limits.eos_ids},
                                 limits.vocab_size);
}

} // namespace paceline::server
