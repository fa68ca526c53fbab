#include "protocol/wire/generation_fields.hpp"

#include "protocol/wire/beam_fields.hpp"
#include "protocol/wire/field_reader.hpp"

#include <boost/json/array.hpp>
#include <boost/json/value.hpp>

#include <algorithm>
#include <charconv>
#include <utility>

namespace paceline::wire {

namespace json = boost::json;

namespace {

constexpr std::int64_t max_int32 = 2147483647;

void read_sampling(field_reader& reader, sampling_params& out) {
  reader.number("temperature", out.temperature, {0, 2});
  reader.number("top_p", out.top_p, {0, 1, true});
  reader.number("min_p", out.min_p, {0, 1});
  reader.integer("top_k", out.top_k, -1, max_int32);
  reader.number("repetition_penalty", out.repetition_penalty, {0.01F, 100});
  reader.number("presence_penalty", out.presence_penalty, {-2, 2});
  reader.number("frequency_penalty", out.frequency_penalty, {-2, 2});
}

/// {"id": bias}: ids are decimal text, as JSON keys are.
void read_logit_bias(field_reader& reader, sampling_params& out) {
  const auto* bias = reader.object("logit_bias");
  if (bias == nullptr) return;
  field_reader entries(*bias, reader.path_of("logit_bias"));
  for (const auto& [name, value] : *bias) {
    std::int32_t id = -1;
    const auto* end = name.data() + name.size();
    const auto [stop, failure] = std::from_chars(name.data(), end, id);
    if (failure != std::errc{} || stop != end || id < 0)
      return reader.fail("logit_bias",
                         "keys must be token ids, not \"" + std::string(name.substr(0, 32)) + "\"");
    float amount = 0;
    if (entries.number(name, amount, {-100, 100})) out.logit_bias.emplace_back(token_id{id}, amount);
    if (entries.failure()) return reader.fail(*entries.failure());
  }
  std::sort(out.logit_bias.begin(), out.logit_bias.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  const auto twice = std::adjacent_find(out.logit_bias.begin(), out.logit_bias.end(),
                                        [](const auto& a, const auto& b) { return a.first == b.first; });
  if (twice != out.logit_bias.end())
    reader.fail("logit_bias", "token " + to_string(twice->first) + " is named twice");
}

/// A string, or up to 16: OpenAI takes four, evaluation tasks send more.
void read_stop_strings(field_reader& reader, std::vector<std::string>& out) {
  const auto* field = reader.find("stop");
  if (field == nullptr) return;
  const auto add = [&](const json::value& value, const std::string& name) {
    const auto* text = value.if_string();
    if (text == nullptr) return reader.fail(name, "must be a string, not " + std::string(kind_of(value)));
    if (text->empty() || text->size() > 1024) return reader.fail(name, "must have 1 to 1024 bytes");
    out.emplace_back(text->data(), text->size());
  };
  if (!field->is_array()) return add(*field, "stop");
  const auto* list = reader.array("stop", 0, 16);
  for (std::size_t i = 0; list != nullptr && i < list->size(); ++i)
    add((*list)[i], "stop[" + std::to_string(i) + "]");
}

void read_stop(field_reader& reader, stop_params& out) {
  read_stop_strings(reader, out.stop_strings);
  if (const auto* ids = reader.array("stop_token_ids", 0, 256)) {
    for (std::size_t i = 0; i < ids->size(); ++i)
      if (const auto id =
              reader.to_integer((*ids)[i], "stop_token_ids[" + std::to_string(i) + "]", 0, max_int32))
        out.stop_ids.emplace_back(static_cast<std::int32_t>(*id));
    std::sort(out.stop_ids.begin(), out.stop_ids.end());
    out.stop_ids.erase(std::unique(out.stop_ids.begin(), out.stop_ids.end()), out.stop_ids.end());
  }
  reader.integer("min_tokens", out.min_tokens, 0, max_int32);
  reader.boolean("ignore_eos", out.ignore_eos);
  reader.boolean("include_stop_str_in_output", out.include_stop_string);
}

void read_speculation(field_reader& outer, generation_fields& out) {
  const auto* fields = outer.object("speculation");
  if (fields == nullptr) return;
  field_reader reader(*fields, outer.path_of("speculation"));
  reader.text("drafter", out.speculation.drafter, 1, 128);
  reader.integer("draft_length", out.speculation.draft_length, 1, 63);
  if (const auto rule = reader.choice("length_rule", {length_rule_names.begin(), length_rule_names.end()}))
    out.speculation.length_rule = static_cast<length_rule>(*rule);
  if (const auto mode = reader.choice("overlap", {overlap_wish_names.begin(), overlap_wish_names.end()}))
    out.speculation.overlap = static_cast<overlap_wish>(*mode);
  if (const auto rule =
          reader.choice("rule", {verification_rule_names.begin(), verification_rule_names.end()}))
    out.rule = static_cast<verification_rule>(*rule);
  // Rules with parameters are never a model's default, so that each is asked for beside its rule.
  const auto parameter = [&](std::string_view name, float& value, verification_rule of) {
    if (reader.number(name, value, {0, 1, true}) && out.rule != of)
      reader.fail(name, "belongs to rule \"" + std::string(name_of(of)) + '"');
  };
  parameter("lenience", out.speculation.lenience, verification_rule::lenient);
  parameter("epsilon", out.speculation.epsilon, verification_rule::typical);
  parameter("delta", out.speculation.delta, verification_rule::typical);
  if (reader.failure()) outer.fail(*reader.failure());
  for (auto& name : reader.ignored()) out.ignored_fields.push_back(std::move(name));
}

/// Parts of text, or token ids.
void read_prediction_list(field_reader& reader, const json::array& list, generation_fields& out) {
  for (std::size_t i = 0; i < list.size() && !reader.failure(); ++i) {
    const auto name = "content[" + std::to_string(i) + "]";
    if (list[i].is_number()) {
      if (const auto id = reader.to_integer(list[i], name, 0, max_int32))
        out.prediction_tokens.emplace_back(static_cast<std::int32_t>(*id));
      continue;
    }
    const auto* fields = list[i].if_object();
    if (fields == nullptr)
      return reader.fail(name, "must be a part of text or a token id, not " + std::string(kind_of(list[i])));
    field_reader part(*fields, reader.path_of(name));
    std::string text;
    if (!part.choice("type", {"text"}) && !part.failure()) part.fail("type", "is required");
    if (!part.text("text", text, 0, max_int32) && !part.failure()) part.fail("text", "is required");
    out.prediction_text += text;
    if (part.failure()) return reader.fail(*part.failure());
    for (auto& ignored : part.ignored()) out.ignored_fields.push_back(std::move(ignored));
  }
  if (!reader.failure() && !out.prediction_tokens.empty() && !out.prediction_text.empty())
    reader.fail("content", "must be parts of text or token ids, not both");
}

/// OpenAI's Predicted Outputs: {"type": "content", "content": text, or parts of text}; ours: token ids.
void read_prediction(field_reader& outer, generation_fields& out) {
  const auto* fields = outer.object("prediction");
  if (fields == nullptr) return;
  field_reader reader(*fields, outer.path_of("prediction"));
  if (!reader.choice("type", {"content"}) && !reader.failure()) reader.fail("type", "is required");
  const auto* content = reader.find("content");
  if (content == nullptr) {
    if (!reader.failure()) reader.fail("content", "is required");
  } else if (const auto* text = content->if_string()) {
    out.prediction_text.assign(text->data(), text->size());
  } else if (const auto* list = content->if_array()) {
    read_prediction_list(reader, *list, out);
  } else {
    reader.fail("content",
                "must be a string, parts of text, or token ids, not " + std::string(kind_of(*content)));
  }
  if (reader.failure()) outer.fail(*reader.failure());
  for (auto& name : reader.ignored()) out.ignored_fields.push_back(std::move(name));
}

void read_streaming(field_reader& outer, generation_fields& out) {
  outer.boolean("stream", out.stream);
  const auto* fields = outer.object("stream_options");
  if (fields == nullptr) return;
  if (!out.stream) return outer.fail("stream_options", "is only allowed with stream: true");
  field_reader reader(*fields, outer.path_of("stream_options"));
  reader.boolean("include_usage", out.include_usage);
  reader.boolean("continuous_usage_stats", out.continuous_usage);
  reader.accept({"include_obfuscation"});
  if (reader.failure()) outer.fail(*reader.failure());
  for (auto& name : reader.ignored()) out.ignored_fields.push_back(std::move(name));
}

/// Fields other servers act on and this one does not: ignoring them would change the answer unnoticed.
void refuse_unsupported(field_reader& reader) {
  for (const auto* name : {"guided_json", "guided_regex", "guided_choice", "guided_grammar",
                           "guided_decoding_backend", "structured_outputs", "grammar", "json_schema"})
    reader.refuse(name, "structured output is not offered");
  for (const auto* name : {"typical_p", "mirostat", "dry_multiplier", "xtc_probability", "top_n_sigma",
                           "dynatemp_range", "bad_words", "allowed_token_ids", "logits_processors"})
    reader.refuse(name, "this sampling option is not offered");
  reader.refuse("truncate_prompt_tokens", "prompts are never truncated");
  reader.refuse("prompt_embeds", "prompts are text or token ids");
  reader.refuse("prompt_logprobs", "use echo with logprobs on /v1/completions");
  reader.refuse("lora", "adapters are not offered");
  bool spaces = true;
  if (reader.boolean("spaces_between_special_tokens", spaces) && !spaces)
    reader.fail(
        unsupported("spaces_between_special_tokens", "spaces_between_special_tokens: only true is offered"));
}

api_error context_exceeded(std::string param, std::string message) {
  return {400, "invalid_request_error", "context_length_exceeded", std::move(message), std::move(param), 0};
}

} // namespace

void read_generation_fields(field_reader& reader, const request_limits& limits, generation_fields& out) {
  reader.text("model", out.model, 0, 256);
  reader.integer("n", out.num_choices, 1, limits.max_choices);
  read_sampling(reader, out.sampling);
  read_logit_bias(reader, out.sampling);
  reader.unsigned64("seed", out.seed);
  read_stop(reader, out.stop);
  std::int32_t first = 0;
  if (reader.integer("first_target", first, 0, max_int32)) out.first_target = token_id{first};
  read_speculation(reader, out);
  read_beams(reader, out);
  read_prediction(reader, out);
  reader.text("user", out.user, 0, 512);
  reader.integer("priority", out.priority, -max_int32 - 1, max_int32);
  if (reader.text("request_id", out.request_id, 1, 128) &&
      !std::all_of(out.request_id.begin(), out.request_id.end(), [](char c) { return c > ' ' && c < 0x7f; }))
    reader.fail("request_id", "must be printable ASCII without spaces");
  reader.text("cache_salt", out.cache_salt, 1, 512);
  reader.boolean("skip_special_tokens", out.skip_special_tokens);
  reader.boolean("return_token_ids", out.return_token_ids);
  read_streaming(reader, out);
  refuse_unsupported(reader);
  // Bookkeeping for OpenAI's own service: nothing here could act on it.
  reader.accept({"metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key",
                 "prompt_cache_retention"});
}

void read_reply_options(field_reader& reader, generation_fields& out) {
  reader.boolean("token_ids", out.return_token_ids);
  reader.boolean("trace", out.trace);
}

void read_paceline_object(field_reader& outer, generation_fields& out) {
  const auto* fields = outer.object("paceline");
  if (fields == nullptr) return;
  field_reader reader(*fields, outer.path_of("paceline"));
  read_reply_options(reader, out);
  if (reader.failure()) outer.fail(*reader.failure());
  for (auto& name : reader.ignored()) out.ignored_fields.push_back(std::move(name));
}

parsed<generation_request> resolve(const generation_fields& fields, const model_limits& model,
                                   std::vector<token_id> prompt,
                                   std::optional<std::uint32_t> default_max_tokens) {
  const auto outside = [&](token_id id) {
    return id.value < 0 || static_cast<std::uint32_t>(id.value) >= model.vocab_size;
  };
  const auto out_of_vocabulary = [&](const char* field, token_id id) {
    return invalid_value(field, std::string(field) + ": token " + to_string(id) +
                                    " is outside the vocabulary of " + std::to_string(model.vocab_size));
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
  for (const auto id : fields.prediction_tokens)
    if (outside(id)) return out_of_vocabulary("prediction.content", id);

  if (auto conflict = conflict_with_beams(fields)) return *std::move(conflict);

  const auto& drafter = fields.speculation.drafter;
  if (drafter != "default" &&
      std::find(model.drafters.begin(), model.drafters.end(), drafter) == model.drafters.end()) {
    std::string names = "default";
    for (const auto& name : model.drafters) names += ", " + name;
    return invalid_value("speculation.drafter", "speculation.drafter: this model offers " + names);
  }

  const std::uint64_t context = model.context_length;
  if (prompt.size() > context || (prompt.size() == context && fields.max_tokens != 0U))
    return context_exceeded("prompt", "the prompt has " + std::to_string(prompt.size()) +
                                          " tokens; the context of " + std::to_string(context) +
                                          " leaves no room for an answer");
  const auto room = static_cast<std::uint32_t>(context - prompt.size());
  if (fields.max_tokens && *fields.max_tokens > room)
    return context_exceeded("max_tokens", "the prompt has " + std::to_string(prompt.size()) +
                                              " tokens and max_tokens is " +
                                              std::to_string(*fields.max_tokens) + "; the context holds " +
                                              std::to_string(context));
  const auto max_tokens = fields.max_tokens.value_or(std::min(room, default_max_tokens.value_or(room)));
  if (fields.stop.min_tokens > max_tokens)
    return invalid_value("min_tokens", "min_tokens: is " + std::to_string(fields.stop.min_tokens) +
                                           ", above the largest output of " + std::to_string(max_tokens));

  generation_request request;
  request.model = model.name;
  request.prompt = std::move(prompt);
  request.sampling = fields.sampling;
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
