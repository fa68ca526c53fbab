#include "server/sessions/preparation.hpp"

#include "protocol/wire/messages_request.hpp"
#include "protocol/wire/output/call_schema.hpp"
#include "runtime/base/joined.hpp"
#include "server/sessions/answer_constraint.hpp"
#include "server/sessions/conversation_store.hpp"

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>

#include <algorithm>
#include <chrono>
#include <utility>

namespace paceline::server {

namespace {

using wire::api_error;
using wire::parsed;

constexpr std::uint32_t default_completion_tokens = 16; // OpenAI's default, for /v1/completions only

/// Sets the fields that depend neither on the prompt nor on the model: owner, tenant, time limit, and index
/// of the choice.
void finish_request(generation_request& request, const edge_context& edge, const caller& who,
                    const wire::generation_fields& fields, std::uint64_t seed, std::uint32_t choice) {
  const auto& user = fields.user;
  request.sampling.seed = seed;
  request.sampling.choice_index = choice;
  request.timeout = edge.settings.get()->request_timeout;
  if (fields.deadline_ms)
    request.timeout = std::min(request.timeout, std::chrono::milliseconds(*fields.deadline_ms));
  // The owner is the key alone. If users or salts counted, a key could get more turns than other keys.
  request.owner = who.tenant;
  // Prefixes are shared within one key only, because cache hits reveal what others have asked.
  if (!who.tenant.empty())
    request.cache_salt = std::string(who.tenant).append("/").append(request.cache_salt);
  // The same applies to the outputs that drafters remember. They are also separate for each of the client's
  // users. The length makes different pairs distinct.
  request.tenant = std::to_string(user.size()).append(":").append(user).append(request.cache_salt);
}

/// A priority that is not allowed is refused. It is not replaced by the allowed one, because the client would
/// not notice that its requests wait.
std::optional<api_error> judge_priority(const caller& who, const wire::generation_fields& fields) {
  if (fields.priority >= who.best_priority) return std::nullopt;
  return api_error{403,
                   "permission_error",
                   "priority_not_allowed",
                   "priority: the lowest that this API key may ask for is " +
                       std::to_string(who.best_priority),
                   "priority",
                   0};
}

/// If calls cannot be read, a client that offers its tools would take the text of a call for an answer. A
/// call that is asked for is always read.
std::optional<api_error> judge_tools(const model_view& model, const std::string& tools, bool is_constrained) {
  if (tools.empty()) return std::nullopt;
  if (model.outputs().calls == call_syntax::harmony)
    for (const auto& one : wire::callable_functions(tools, "", false))
      if (!wire::is_harmony_name(one.name))
        return wire::invalid_value("tools",
                                   "tools: model \"" + model.limits().name +
                                       "\" writes calls in harmony, where names have letters, digits "
                                       "and _ . - / : alone, and not \"" +
                                       one.name + "\"");
  if (is_constrained || model.outputs().calls != call_syntax::none) return std::nullopt;
  return wire::unsupported("tools",
                           "tools: how model \"" + model.limits().name +
                               "\" writes calls is not known; its option tool_call_parser can name it");
}

/// Determines what the output after `text`, the rendered prompt, is searched for.
wire::output_plan plan_output(const model_view& model, const wire::generation_fields& fields,
                              const wire::chat_prompt& prompt, std::string_view text) {
  wire::output_plan plan;
  plan.begins_inside_reasoning = wire::ends_inside_reasoning(text, model.outputs().reasoning);
  if (fields.thoughts.split) {
    plan.reasoning = model.outputs().reasoning;
    plan.drops_reasoning = !fields.thoughts.shown;
  }
  plan.in_harmony = model.outputs().calls == call_syntax::harmony;
  if (prompt.tools.empty()) return plan;
  // If a call is required, or a constraint allows either a call or an answer, a call is the whole output, as
  // a bare object.
  const bool is_constrained = prompt.demand.required || fields.constraint;
  plan.calls = is_constrained && !plan.in_harmony ? call_syntax::hermes : model.outputs().calls;
  if (is_constrained && !plan.in_harmony && !fields.thoughts.split) {
    // A bare call is only recognized at the beginning of the answer, so the end of thoughts must be found.
    plan.reasoning = model.outputs().reasoning;
    plan.keeps_reasoning_in_text = true;
  }
  plan.tools = std::make_shared<const wire::tool_signatures>(prompt.tools);
  if (!prompt.parallel_tool_calls || is_constrained) plan.max_calls = 1;
  plan.ends_itself = is_constrained;
  return plan;
}

/// True if a marker of the model's thoughts is a special token. Without the text of special tokens, thoughts
/// would run into the answer.
bool marks_thoughts_by_special_tokens(const model_view& model) {
  for (const auto& marker : {model.outputs().reasoning.open, model.outputs().reasoning.close})
    if (const auto token = token_of(model, marker); token && model.is_special(*token)) return true;
  return false;
}

/// Stops when the tokens exceed the context, because a longer text is refused whatever follows.
parsed<std::vector<token_id>> encode_text(const model_view& model, const std::string& text, bool special) {
  const auto context = model.limits().context_length;
  auto tokens = model.encode(text, special, true, context);
  if (!tokens) return wire::from_error(tokens.error(), "prompt");
  if (tokens->size() > context) return wire::prompt_too_long(model.limits());
  return *std::move(tokens);
}

/// An error of the prompt, for an endpoint where `field` is what the prompt is made of.
api_error with_param(const char* field, api_error failure) {
  if (failure.param != "prompt") return failure;
  failure.param = field;
  static constexpr std::string_view own = "prompt: ";
  if (failure.message.starts_with(own)) failure.message.erase(0, own.size());
  failure.message.insert(0, std::string(field) + ": ");
  return failure;
}

/// The tokens of a chat. `field` names its messages. `plan` receives what the output is searched for.
parsed<std::vector<token_id>> encode_chat(const model_view& model, const wire::chat_prompt& prompt,
                                          const char* field, wire::generation_fields& fields,
                                          wire::output_plan& plan) {
  const auto text = render_text(model, prompt, field);
  if (!text) return text.failure();
  auto tokens = encode_text(model, *text, false); // the template writes the special tokens itself
  if (!tokens) return with_param(field, std::move(tokens).failure());
  plan = plan_output(model, fields, prompt, *text);
  if (plan.in_harmony || wire::marks_calls_by_special_tokens(plan.calls) ||
      marks_thoughts_by_special_tokens(model))
    fields.skip_special_tokens = false;
  return tokens;
}

/// The client's prediction as tokens. Its text is part of the output, so no special tokens are added.
std::optional<api_error> encode_prediction(const model_view& model, wire::generation_fields& fields) {
  if (const auto text = std::exchange(fields.prediction_text, {}); !text.empty()) {
    auto tokens = model.encode(text, false, false, model.limits().context_length);
    if (!tokens) return wire::from_error(tokens.error(), "prediction.content");
    fields.prediction_tokens = *std::move(tokens);
  }
  return wire::keep_usable_prediction(fields, model.limits());
}

/// Consumes `input`: the text is not needed once it is tokenized.
parsed<std::vector<token_id>> tokens_of(const model_view& model, wire::prompt_input input) {
  if (const auto* text = std::get_if<std::string>(&input)) return encode_text(model, *text, true);
  return std::get<std::vector<token_id>>(std::move(input));
}

wire::reply_shape shape_of(const wire::generation_fields& fields, bool scores) {
  wire::reply_shape shape;
  shape.scores = scores;
  shape.token_ids = fields.return_token_ids;
  shape.trace = fields.trace;
  shape.usage_in_stream = fields.include_usage;
  shape.continuous_usage = fields.continuous_usage;
  return shape;
}

prepared_completion begin_completion(const model_view& model, wire::generation_fields& fields, bool scores) {
  prepared_completion out;
  out.model = &model;
  out.stream = fields.stream;
  out.include_usage = fields.include_usage;
  out.has_prediction = fields.has_prediction;
  out.shape = shape_of(fields, scores);
  out.num_choices = fields.num_choices;
  out.choices_a_sequence = fields.beams.width > 0 ? fields.num_choices : 1;
  out.client_id = fields.request_id;
  out.ignored_fields = std::move(fields.ignored_fields);
  return out;
}

/// Adds the choices of one prompt.
std::optional<api_error> add_sequences(prepared_completion& out, const edge_context& edge, const caller& who,
                                       const wire::generation_fields& fields, shared_list<token_id> prompt,
                                       std::size_t num_prompts, std::uint64_t seed,
                                       std::optional<std::uint32_t> default_tokens) {
  auto request = wire::resolve(fields, out.model->limits(), prompt, default_tokens);
  if (!request) return request.failure();
  request->stats_in_events = out.output.may_be_stopped();
  const auto num_sequences = std::uint64_t{out.num_choices} / out.choices_a_sequence * num_prompts;
  if (auto failure = wire::judge_kept_scores(fields, *request, num_sequences)) return failure;
  out.prompts.push_back(std::move(prompt));
  for (std::uint32_t choice = 0; choice < out.num_choices; choice += out.choices_a_sequence) {
    out.sequences.push_back(*request);
    out.most_kept_bytes += wire::most_kept_bytes(fields, *request);
    finish_request(out.sequences.back(), edge, who, fields, seed, choice);
  }
  return std::nullopt;
}

/// Sets what all outputs must match. This function is called last. A schema may take seconds to compile, so a
/// request that is refused for another reason must not get here.
std::optional<api_error> constrain_sequences(prepared_completion& out, const wire::generation_fields& fields,
                                             const asked_call* call) {
  const auto constraint = constrain_answer(*out.model, fields, out.output, call);
  if (!constraint) return constraint.failure();
  for (auto& sequence : out.sequences) sequence.constraint = *constraint;
  return std::nullopt;
}

} // namespace

std::optional<api_error> apply_effort(const model_view& model, const wire::effort_wish& wish,
                                      wire::chat_prompt& prompt) {
  const auto& takes = model.reasoning();
  const auto& level = wish.level;
  if (wish.field.empty() || !takes.any) return std::nullopt;
  if (takes.has_effort && (level == "low" || level == "medium" || level == "high")) {
    prompt.reasoning_effort = level;
  } else if (takes.is_switched) {
    if (!prompt.enable_thinking) prompt.enable_thinking = level != "none";
  } else if (takes.has_effort || level != "medium") {
    return wire::unsupported(
        wish.field,
        wish.field + ": the chat template of model \"" + model.limits().name +
            (takes.has_effort ? "\" knows low, medium and high" : "\" does not let it be changed"));
  }
  return std::nullopt;
}

parsed<std::string> render_text(const model_view& model, const wire::chat_prompt& prompt, const char* field) {
  if (!model.has_chat_template())
    return wire::unsupported(field, std::string(field) + ": model \"" + model.limits().name +
                                        "\" has no chat template; use /v1/completions");
  if (!prompt.tools.empty() && !model.template_takes_tools())
    return wire::unsupported("tools", "tools: the chat template of model \"" + model.limits().name +
                                          "\" has no place for tools");
  auto text = model.render_chat(wire::template_variables(prompt));
  if (!text) return wire::from_error(error{errc::invalid_argument, text.error().message()}, field);
  return *std::move(text);
}

wire::request_limits request_limits_of(const edge_context& edge) {
  wire::request_limits limits;
  limits.max_body_bytes = edge.options.max_body_bytes;
  limits.max_choices = edge.limits.max_choices;
  limits.max_sequences = edge.limits.max_sequences;
  return limits;
}

parsed<const model_view*> find_model(const backend& runtime, std::string_view name) {
  if (const auto* model = runtime.model(name)) return model;
  return api_error{404,
                   "not_found_error",
                   "model_not_found",
                   "the model \"" + std::string(name) + "\" does not exist",
                   "model",
                   0};
}

parsed<const model_view*> find_model(const backend& runtime, std::string_view path_model,
                                     std::string_view body_model) {
  if (path_model.empty()) return find_model(runtime, body_model);
  auto found = find_model(runtime, path_model);
  if (!found || body_model.empty() || body_model == "default") return found;
  const auto named = find_model(runtime, body_model);
  if (!named) return named;
  if (*named != *found)
    return wire::invalid_value("model", "model: names another model than the path, which is below /models/" +
                                            std::string(path_model));
  return found;
}

parsed<const model_view*> find_tokenizer(const backend& runtime, std::string_view path_model,
                                         std::string_view body_model) {
  const auto all = runtime.models();
  if (!path_model.empty() || !body_model.empty() || all.size() < 2)
    return find_model(runtime, path_model, body_model);
  const auto names = joined(all, ", ", [](const model_view* model) { return model->limits().name; });
  return wire::invalid_value("model", "model: is required where several are served (" + names +
                                          "), or use the endpoints below /models/NAME/");
}

parsed<prepared_completion> prepare_completion(const edge_context& edge, const caller& who,
                                               std::string_view body, std::string_view path_model) {
  auto request = wire::parse_completion_request(body, request_limits_of(edge));
  if (!request) return std::move(request).failure();
  if (auto failure = judge_priority(who, request->fields)) return *std::move(failure);
  const auto model = find_model(edge.runtime, path_model, request->fields.model);
  if (!model) return model.failure();
  auto out = begin_completion(**model, request->fields, request->num_logprobs.has_value());
  out.echo = request->echo;
  if (auto failure = encode_prediction(**model, request->fields)) return *std::move(failure);
  const auto seed = request->fields.seed.value_or(fresh_seed());
  for (auto& input : request->prompts) {
    const auto* given = std::get_if<std::string>(&input);
    auto text = out.echo && given != nullptr ? std::make_shared<const std::string>(*given) : nullptr;
    auto tokens = tokens_of(**model, std::exchange(input, {}));
    if (!tokens) return std::move(tokens).failure();
    if (out.echo && !text) text = std::make_shared<const std::string>((*model)->decode(*tokens, false));
    if (text) out.prompt_texts.push_back(std::move(text));
    if (auto failure = add_sequences(out, edge, who, request->fields, *std::move(tokens),
                                     request->prompts.size(), seed, default_completion_tokens))
      return *std::move(failure);
  }
  if (auto failure = constrain_sequences(out, request->fields, nullptr)) return *std::move(failure);
  return out;
}

namespace {

parsed<prepared_completion> prepare_chat(const edge_context& edge, const caller& who,
                                         parsed<wire::chat_request> request, std::string_view path_model) {
  if (!request) return std::move(request).failure();
  if (auto failure = judge_priority(who, request->fields)) return *std::move(failure);
  const auto model = find_model(edge.runtime, path_model, request->fields.model);
  if (!model) return model.failure();
  if (auto failure = apply_effort(**model, request->fields.effort, request->prompt))
    return *std::move(failure);
  if (auto failure = judge_tools(**model, request->prompt.tools,
                                 request->prompt.demand.required || request->fields.constraint))
    return *std::move(failure);
  auto out = begin_completion(**model, request->fields, request->num_logprobs.has_value());
  out.chat = true;
  auto tokens = encode_chat(**model, request->prompt, "messages", request->fields, out.output);
  if (!tokens) return std::move(tokens).failure();
  if (auto failure = encode_prediction(**model, request->fields)) return *std::move(failure);
  if (auto failure = add_sequences(out, edge, who, request->fields, *std::move(tokens), 1,
                                   request->fields.seed.value_or(fresh_seed()), std::nullopt))
    return with_param("messages", *std::move(failure));
  const asked_call call{request->prompt.demand, request->prompt.tools};
  if (auto failure = constrain_sequences(out, request->fields, &call)) return *std::move(failure);
  return out;
}

} // namespace

parsed<prepared_completion> prepare_chat(const edge_context& edge, const caller& who, std::string_view body,
                                         std::string_view path_model) {
  return prepare_chat(edge, who, wire::parse_chat_request(body, request_limits_of(edge)), path_model);
}

parsed<prepared_completion> prepare_message(const edge_context& edge, const caller& who,
                                            std::string_view body, std::string_view path_model) {
  return prepare_chat(edge, who, wire::parse_messages_request(body, request_limits_of(edge)), path_model);
}

wire::chat_prompt prompt_of(const wire::response_request& request, std::vector<wire::chat_message> history) {
  wire::chat_prompt prompt;
  if (!request.instructions.empty()) prompt.messages.push_back({"system", request.instructions, "", {}, ""});
  std::move(history.begin(), history.end(), std::back_inserter(prompt.messages));
  prompt.messages.insert(prompt.messages.end(), request.input.begin(), request.input.end());
  if (!request.demand.forbidden) prompt.tools = request.tools;
  prompt.parallel_tool_calls = request.parallel_tool_calls;
  prompt.demand = request.demand;
  return prompt;
}

parsed<prepared_response> prepare_response(const edge_context& edge, const caller& who,
                                           wire::response_request request,
                                           std::vector<wire::chat_message> history) {
  if (auto failure = judge_priority(who, request.fields)) return *std::move(failure);
  const auto model = find_model(edge.runtime, request.fields.model);
  if (!model) return model.failure();
  prepared_response out;
  out.model = *model;
  out.conversation = history;
  out.conversation.insert(out.conversation.end(), request.input.begin(), request.input.end());
  auto prompt = prompt_of(request, std::move(history));
  if (auto failure = judge_arguments(prompt.messages)) return *std::move(failure);
  const std::string offered = prompt.tools;
  if (auto failure = judge_tools(**model, offered, request.demand.required || request.fields.constraint))
    return *std::move(failure);
  if (auto failure = apply_effort(**model, request.fields.effort, prompt)) return *std::move(failure);
  auto tokens = encode_chat(**model, prompt, "input", request.fields, out.output);
  if (!tokens) return std::move(tokens).failure();
  auto fields = request.fields;
  if (!request.generate) { // only the prompt's cells are needed, but the engine generates at least one token
    fields.max_tokens = 1;
    fields.stop.min_tokens = 0;
    fields.speculation.drafter = "none";
  }
  if (auto failure = encode_prediction(**model, fields)) return *std::move(failure);
  auto sequence = wire::resolve(fields, (*model)->limits(), *std::move(tokens), std::nullopt);
  if (!sequence) return with_param("input", std::move(sequence).failure());
  sequence->stats_in_events = out.output.may_be_stopped();
  finish_request(*sequence, edge, who, request.fields, request.fields.seed.value_or(fresh_seed()), 0);
  const asked_call call{request.demand, offered};
  auto constraint = constrain_answer(**model, request.fields, out.output, &call);
  if (!constraint) return std::move(constraint).failure();
  sequence->constraint = *std::move(constraint);
  out.sequence = *std::move(sequence);
  out.request = std::move(request);
  return out;
}

} // namespace paceline::server
