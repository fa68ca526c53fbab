#include "protocol/wire/generation_fields.hpp"

#include "protocol/wire/beam_fields.hpp"
#include "protocol/wire/field_reader.hpp"
#include "protocol/wire/fields/field_table.hpp"
#include "protocol/wire/kept_output.hpp"
#include "protocol/wire/sampling_fields.hpp"

#include <algorithm>
#include <utility>

namespace paceline::wire {

namespace {

void read_stop(field_reader& reader, stop_params& out) {
  read_stop_strings(reader, spec("stop", in::openai), out.stop_strings);
  if (const auto ids = reader.array(spec("stop_token_ids"))) {
    std::size_t i = 0;
    for (const auto value : *ids)
      if (const auto id = reader.to_integer(value, indexed("stop_token_ids", i++), 0, max_int32))
        out.stop_ids.emplace_back(static_cast<std::int32_t>(*id));
    std::sort(out.stop_ids.begin(), out.stop_ids.end());
    out.stop_ids.erase(std::unique(out.stop_ids.begin(), out.stop_ids.end()), out.stop_ids.end());
  }
  reader.integer(spec("min_tokens"), out.min_tokens);
  reader.boolean(spec("ignore_eos"), out.ignore_eos);
  reader.boolean(spec("include_stop_str_in_output"), out.include_stop_string);
}

void read_speculation(field_reader& outer, generation_fields& out) {
  const auto fields = outer.object(spec("speculation"));
  if (!fields) return;
  field_reader reader(*fields, outer.path_of("speculation"));
  reader.text(spec("speculation.drafter"), out.speculation.drafter);
  reader.integer(spec("speculation.draft_length"), out.speculation.draft_length);
  if (const auto rule = reader.choice(spec("speculation.length_rule")))
    out.speculation.length_rule = static_cast<length_rule>(*rule);
  if (const auto mode = reader.choice(spec("speculation.overlap")))
    out.speculation.overlap = static_cast<overlap_request>(*mode);
  if (const auto rule = reader.choice(spec("speculation.rule")))
    out.rule = static_cast<verification_rule>(*rule);
  // Rules with parameters are never a model's default, so a parameter needs its rule in the same request.
  const auto parameter = [&](const field_spec& row, float& value, verification_rule of) {
    if (reader.number(row, value) && out.rule != of)
      reader.fail(row.name, "belongs to rule \"" + std::string(name_of(of)) + '"');
  };
  parameter(spec("speculation.lenience"), out.speculation.lenience, verification_rule::lenient);
  parameter(spec("speculation.epsilon"), out.speculation.epsilon, verification_rule::typical);
  parameter(spec("speculation.delta"), out.speculation.delta, verification_rule::typical);
  outer.adopt(reader);
}

/// Reads parts of text, or token ids.
void read_prediction_list(field_reader& reader, json_elements list, generation_fields& out) {
  if (auto tokens = read_token_ids(list)) {
    out.prediction_tokens = *std::move(tokens);
    return;
  }
  std::size_t i = 0;
  bool has_ids = false;
  for (const auto value : list) {
    const auto name = indexed("content", i++);
    if (value.is_number()) {
      if (!reader.to_integer(value, name, 0, max_int32)) return;
      has_ids = true;
      continue;
    }
    if (!value.is_object())
      return reader.fail(name, "must be a part of text or a token id, not " + std::string(kind_of(value)));
    field_reader part(value, reader.path_of(name));
    std::string text;
    if (!part.choice(spec("prediction.content[].type"))) part.fail("type", "is required");
    if (!part.text(spec("prediction.content[].text"), text)) part.fail("text", "is required");
    out.prediction_text += text;
    reader.adopt(part);
    if (reader.failure()) return;
  }
  if (has_ids && !out.prediction_text.empty())
    reader.fail("content", "must be parts of text or token ids, not both");
}

/// OpenAI's Predicted Outputs: {"type": "content", "content": text, or parts of text}; as an extension, token
/// ids.
void read_prediction(field_reader& outer, generation_fields& out) {
  const auto fields = outer.object(spec("prediction"));
  if (!fields) return;
  out.has_prediction = true;
  field_reader reader(*fields, outer.path_of("prediction"));
  if (!reader.choice(spec("prediction.type"))) reader.fail("type", "is required");
  const auto content = reader.find(spec("prediction.content"));
  if (!content) {
    reader.fail("content", "is required");
  } else if (auto text = content->string()) {
    out.prediction_text = *std::move(text);
  } else if (content->is_array()) {
    read_prediction_list(reader, content->elements(), out);
  } else {
    reader.fail("content",
                "must be a string, parts of text, or token ids, not " + std::string(kind_of(*content)));
  }
  outer.adopt(reader);
}

void read_streaming(field_reader& outer, generation_fields& out) {
  outer.boolean(spec("stream", in::responses), out.stream);
  const auto fields = outer.object(spec("stream_options"));
  if (!fields) return;
  if (!out.stream) return outer.fail("stream_options", "is only allowed with stream: true");
  field_reader reader(*fields, outer.path_of("stream_options"));
  reader.boolean(spec("stream_options.include_usage"), out.include_usage);
  reader.boolean(spec("stream_options.continuous_usage_stats"), out.continuous_usage);
  reader.accept(spec("stream_options.include_obfuscation"));
  outer.adopt(reader);
}

api_error context_exceeded(std::string param, std::string message) {
  return {400, "invalid_request_error", "context_length_exceeded", std::move(message), std::move(param), 0};
}

/// Uses OpenAI's words, by which clients recognise that the context is too short.
std::string maximum_of(const model_limits& model) {
  return "this model's maximum context length is " + std::to_string(model.context_length) + " tokens";
}

bool outside_of(const model_limits& model, token_id id) {
  return id.value < 0 || static_cast<std::uint32_t>(id.value) >= model.vocab_size;
}

api_error outside_vocabulary(const model_limits& model, const char* field, token_id id) {
  return invalid_value(field, std::string(field) + ": token " + to_string(id) +
                                  " is outside the vocabulary of " + std::to_string(model.vocab_size));
}

/// Upper bound of the log-probabilities in a sequence's reply.
std::uint64_t num_kept_scores(const generation_request& resolved) {
  const auto& sampling = resolved.sampling;
  if (!sampling.num_logprobs) return 0;
  const std::uint64_t positions =
      resolved.stop.max_tokens + (sampling.prompt_logprobs ? resolved.prompt.size() : 0);
  return positions * (1 + std::uint64_t{*sampling.num_logprobs});
}

} // namespace

std::optional<api_error> keep_usable_prediction(generation_fields& fields, const model_limits& model) {
  auto& tokens = fields.prediction_tokens;
  const auto bad =
      std::find_if(tokens.begin(), tokens.end(), [&](token_id id) { return outside_of(model, id); });
  if (bad != tokens.end()) return outside_vocabulary(model, "prediction.content", *bad);
  if (tokens.size() > model.context_length) // a shortened list would keep its memory
    tokens = std::vector<token_id>(tokens.begin(), tokens.begin() + model.context_length);
  return std::nullopt;
}

api_error prompt_too_long(const model_limits& model) {
  return context_exceeded("prompt", "the prompt has more than " + std::to_string(model.context_length) +
                                        " tokens; " + maximum_of(model));
}

std::uint64_t most_kept_bytes(const generation_fields& fields, const generation_request& resolved) {
  constexpr std::uint64_t text_bytes = 8, id_bytes = sizeof(token_id), score_bytes = 7; // a token
  return resolved.stop.max_tokens * (text_bytes + (fields.return_token_ids ? id_bytes : 0) +
                                     (fields.trace ? round_log::most_bytes : 0)) +
         num_kept_scores(resolved) * score_bytes;
}

std::optional<api_error> judge_kept_scores(const generation_fields& fields,
                                           const generation_request& resolved, std::uint64_t num_sequences) {
  constexpr std::uint32_t always_allowed = 8;
  if (fields.stream || fields.num_choices <= always_allowed) return std::nullopt;
  const auto scores = num_sequences * num_kept_scores(resolved);
  if (scores <= max_kept_scores) return std::nullopt;
  return invalid_value("n",
                       "n: times the prompts, max_tokens and 1 + the number of top log-probabilities is " +
                           std::to_string(scores) + "; without stream: true it must be at most " +
                           std::to_string(max_kept_scores));
}

void refuse_several_outputs(field_reader& reader, const generation_fields& fields) {
  if (fields.num_choices != 1) reader.fail(unsupported("n", "n: only 1 is offered here"));
  if (fields.beams.width > 0)
    reader.fail(unsupported("use_beam_search",
                            "use_beam_search: is offered on /v1/completions and /v1/chat/completions"));
}

void read_stop_strings(field_reader& reader, const field_spec& row, std::vector<std::string>& out) {
  const auto add = [&](json_view value, std::string_view name) {
    auto text = value.string();
    if (!text) return reader.fail(name, "must be a string, not " + std::string(kind_of(value)));
    if (text->size() > static_cast<std::size_t>(row.most_bytes))
      return reader.fail(name, "must have at most " + std::to_string(row.most_bytes) + " bytes");
    if (!text->empty()) out.push_back(*std::move(text));
  };
  const auto field = reader.find(row);
  if (field && row.type == field_type::text_or_list && !field->is_array()) return add(*field, row.name);
  const auto list = reader.array(row);
  if (!list) return;
  std::size_t i = 0;
  for (const auto value : *list) add(value, indexed(row.name, i++));
}

void add_ignored(std::vector<std::string> names, generation_fields& out) {
  for (auto& name : names)
    if (out.ignored_fields.size() < field_reader::max_ignored) out.ignored_fields.push_back(std::move(name));
}

void read_generation_fields(field_reader& reader, const request_limits& limits, generation_fields& out) {
  reader.text(spec("model"), out.model);
  const auto& n = spec("n", in::whole_texts); // responses refuse all values but 1 with another code
  reader.integer(n.name, out.num_choices, n.least, limits.max_choices);
  read_sampling(reader, out.sampling);
  read_seed(reader, out.seed);
  read_stop(reader, out.stop);
  std::int32_t first = 0;
  if (reader.integer(spec("first_target"), first)) out.first_target = token_id{first};
  read_speculation(reader, out);
  read_beams(reader, out);
  read_prediction(reader, out);
  reader.text(spec("user"), out.user);
  reader.integer(spec("priority"), out.priority);
  reader.integer(spec("deadline_ms"), out.deadline_ms);
  if (reader.text(spec("request_id", in::whole_texts), out.request_id) &&
      !std::all_of(out.request_id.begin(), out.request_id.end(), [](char c) { return c > ' ' && c < 0x7f; }))
    reader.fail("request_id", "must be printable ASCII without spaces");
  reader.text(spec("cache_salt"), out.cache_salt);
  reader.boolean(spec("skip_special_tokens"), out.skip_special_tokens);
  reader.boolean(spec("return_token_ids", in::openai), out.return_token_ids);
  read_streaming(reader, out);
}

void read_max_tokens(field_reader& reader, const field_spec& row, std::int64_t least,
                     generation_fields& out) {
  std::int64_t count = 0;
  if (!reader.integer(row, count)) return;
  out.max_tokens_field = row.name;
  out.no_token_limit = count == -1;
  out.max_tokens.reset();
  if (out.no_token_limit) return;
  if (count < least)
    return reader.fail(row.name, "must be at least " + std::to_string(least) + ", or -1 for no limit");
  out.max_tokens = static_cast<std::uint32_t>(count);
}

void read_reply_options(field_reader& reader, generation_fields& out) {
  reader.boolean(spec("paceline.token_ids"), out.return_token_ids);
  reader.boolean(spec("paceline.trace"), out.trace);
}

void read_paceline_object(field_reader& outer, generation_fields& out) {
  const auto fields = outer.object(spec("paceline"));
  if (!fields) return;
  field_reader reader(*fields, outer.path_of("paceline"));
  read_reply_options(reader, out);
  outer.adopt(reader);
}

namespace {

/// Ids that the model's vocabulary does not have.
std::optional<api_error> judge_ids(const generation_fields& fields, const model_limits& model,
                                   const shared_list<token_id>& prompt) {
  const auto outside = [&](token_id id) { return outside_of(model, id); };
  const auto out_of_vocabulary = [&](const char* field, token_id id) {
    return outside_vocabulary(model, field, id);
  };
  if (prompt.empty()) return invalid_value("prompt", "prompt: must have at least one token");
  if (const auto bad = std::find_if(prompt.begin(), prompt.end(), outside); bad != prompt.end())
    return out_of_vocabulary("prompt", *bad);
  for (const auto& [id, amount] : fields.sampling.logit_bias)
    if (outside(id)) return out_of_vocabulary("logit_bias", id);
  for (const auto id : fields.stop.stop_ids)
    if (outside(id)) return out_of_vocabulary("stop_token_ids", id);
  if (fields.first_target && outside(*fields.first_target))
    return out_of_vocabulary("first_target", *fields.first_target);
  return std::nullopt;
}

std::optional<api_error> judge_drafter(const std::string& drafter, const model_limits& model) {
  if (drafter == "default" ||
      std::find(model.drafters.begin(), model.drafters.end(), drafter) != model.drafters.end())
    return std::nullopt;
  std::string names = "default";
  for (const auto& name : model.drafters) names += ", " + name;
  return invalid_value("speculation.drafter", "speculation.drafter: this model offers " + names);
}

} // namespace

parsed<generation_request> resolve(const generation_fields& fields, const model_limits& model,
                                   shared_list<token_id> prompt,
                                   std::optional<std::uint32_t> default_max_tokens) {
  if (auto outside = judge_ids(fields, model, prompt)) return *std::move(outside);
  if (auto conflict = conflict_with_beams(fields)) return *std::move(conflict);
  if (auto unknown = judge_drafter(fields.speculation.drafter, model)) return *std::move(unknown);

  const std::uint64_t context = model.context_length;
  if (prompt.size() > context || (prompt.size() == context && fields.max_tokens != 0U))
    return context_exceeded("prompt", "the prompt has " + std::to_string(prompt.size()) + " tokens; " +
                                          maximum_of(model));
  const auto room = static_cast<std::uint32_t>(context - prompt.size());
  if (fields.max_tokens && *fields.max_tokens > context && !fields.clamps_max_tokens)
    return context_exceeded(std::string(fields.max_tokens_field),
                            std::string(fields.max_tokens_field) + " is " +
                                std::to_string(*fields.max_tokens) + "; " + maximum_of(model));
  const auto unasked = fields.no_token_limit ? room : std::min(room, default_max_tokens.value_or(room));
  const auto max_tokens = std::min(room, fields.max_tokens.value_or(unasked));
  if (fields.stop.min_tokens > max_tokens)
    return invalid_value("min_tokens", "min_tokens: is " + std::to_string(fields.stop.min_tokens) +
                                           ", above the largest output of " + std::to_string(max_tokens));

  generation_request request;
  request.model = model.name;
  request.prompt = std::move(prompt);
  request.sampling = fields.sampling;
  if (request.sampling.top_p == 0) { // the smallest set with this share has one token, as in llama-server
    request.sampling.top_p = 1;
    request.sampling.top_k = 1;
  }
  request.stop = fields.stop;
  request.stop.max_tokens = max_tokens;
  request.stop.eos_ids = model.eos_ids;
  request.speculation = fields.speculation;
  request.beams = fields.beams;
  request.speculation.rule =
      fields.beams.width > 0 ? verification_rule::coupled : fields.rule.value_or(model.default_rule);
  request.first_target = fields.first_target;
  request.cache_salt = fields.cache_salt;
  request.prediction = fields.prediction_tokens;
  request.priority = fields.priority;
  request.skip_special_tokens = fields.skip_special_tokens;
  request.trace = fields.trace;
  return request;
}

} // namespace paceline::wire
