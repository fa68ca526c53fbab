#include "protocol/wire/unsupported_fields.hpp"

#include "protocol/wire/field_reader.hpp"

#include <string>

namespace paceline::wire {

namespace {

bool never(json_view) { return false; }
bool is_true(json_view value) { return value.boolean() == true; }
bool is_false(json_view value) { return value.boolean() == false; }
bool is_zero(json_view value) { return value.number() == 0.0; }
bool is_not_positive(json_view value) { return value.number() && *value.number() <= 0; }
bool is_at_least_one(json_view value) { return value.number() && *value.number() >= 1; }
bool is_at_most_one(json_view value) { return value.number() && *value.number() <= 1; }
bool is_empty(json_view value) {
  return value.is_string("") || (value.is_array() && value.elements().empty()) ||
         (value.is_object() && value.members().empty());
}
bool is_medium(json_view value) { return value.is_string("medium"); }
bool calls_no_function(json_view value) { return value.is_string("none") || value.is_string("auto"); }

constexpr std::string_view structured = "structured output is not offered";
constexpr std::string_view sampling = "this sampling option is not offered";

constexpr unsupported_field of_all_endpoints[] = {
    {"guided_json", never, "", structured},
    {"guided_regex", never, "", structured},
    {"guided_choice", never, "", structured},
    {"guided_grammar", never, "", structured},
    {"guided_decoding_backend", never, "", structured},
    {"structured_outputs", never, "", structured},
    {"grammar", is_empty, "\"\"", structured},
    {"json_schema", never, "", structured},
    {"typical_p", is_at_least_one, "1", sampling},
    {"typ_p", is_at_least_one, "1", sampling},
    {"tfs_z", is_at_least_one, "1", sampling},
    {"mirostat", is_zero, "0", sampling},
    {"mirostat_mode", is_zero, "0", sampling},
    {"dry_multiplier", is_zero, "0", sampling},
    {"xtc_probability", is_not_positive, "0", sampling},
    {"top_n_sigma", is_not_positive, "-1", sampling},
    {"dynatemp_range", is_not_positive, "0", sampling},
    {"min_keep", is_at_most_one, "0", sampling},
    {"samplers", never, "", "the order of the sampling steps is fixed"},
    {"bad_words", is_empty, "[]", sampling},
    {"allowed_token_ids", never, "", sampling},
    {"logits_processors", is_empty, "[]", sampling},
    {"n_probs", is_not_positive, "0", "use logprobs"},
    {"post_sampling_probs", is_false, "false", "use logprobs"},
    {"n_indent", is_not_positive, "0", "infilling is not offered"},
    {"t_max_predict_ms", is_not_positive, "0", "use max_tokens"},
    {"truncate_prompt_tokens", never, "", "prompts are never truncated"},
    {"prompt_embeds", never, "", "prompts are text or token ids"},
    {"prompt_logprobs", never, "", "use echo with logprobs on /v1/completions"},
    {"image_data", is_empty, "[]", "only text is offered"},
    {"lora", is_empty, "[]", "adapters are not offered"},
    {"spaces_between_special_tokens", is_true, "true", "special tokens are separated as the vocabulary does"},
};

constexpr unsupported_field of_completions[] = {
    {"suffix", is_empty, "\"\"", "infilling is not offered"},
    {"add_special_tokens", is_true, "true", "prompts that are text begin as the vocabulary says"},
};

constexpr unsupported_field of_chats[] = {
    {"audio", never, "", "only text is offered"},
    {"web_search_options", never, "", "web search is not offered"},
    {"functions", is_empty, "[]", "use tools"},
    {"function_call", calls_no_function, "\"none\"", "use tool_choice"},
    {"verbosity", is_medium, "\"medium\"", "this option is not offered"},
    {"chat_template", never, "", "the model's own template is used"},
    {"documents", is_empty, "[]", "documents are not offered"},
    {"continue_final_message", is_false, "false", "messages are never continued"},
    {"add_special_tokens", is_false, "false", "the template writes special tokens"},
};

} // namespace

void refuse_unsupported(field_reader& reader, std::span<const unsupported_field> fields) {
  for (const auto& field : fields) {
    const auto value = reader.find(field.name);
    if (!value || field.has_no_effect(*value)) continue;
    auto rule = std::string(field.why);
    if (!field.neutral.empty()) rule.append("; only ").append(field.neutral).append(" is accepted");
    const auto path = reader.path_of(field.name);
    reader.fail(unsupported(path, path + ": " + rule));
  }
}

void refuse_unsupported_generation(field_reader& reader) {
  refuse_unsupported(reader, of_all_endpoints);
  // Parameters of the options above, which have no effect without them.
  reader.accept({"mirostat_tau", "mirostat_eta", "dry_base", "dry_allowed_length", "dry_penalty_last_n",
                 "dry_sequence_breakers", "xtc_threshold", "dynatemp_exponent"});
  // llama-server's: where a prompt is computed and what is dropped of it, which is nothing.
  reader.accept({"n_keep", "n_discard", "id_slot", "cache_prompt", "timings_per_token"});
}

void refuse_unsupported_completion(field_reader& reader) { refuse_unsupported(reader, of_completions); }

void refuse_unsupported_chat(field_reader& reader) { refuse_unsupported(reader, of_chats); }

void read_response_format(field_reader& outer) {
  const auto fields = outer.object("response_format");
  if (!fields) return;
  field_reader reader(*fields, outer.path_of("response_format"));
  std::string type;
  if (!reader.text("type", type, 1, 64) && !reader.failure()) reader.fail("type", "is required");
  if (!reader.failure() && type != "text")
    reader.fail(unsupported("response_format", "response_format: only {\"type\": \"text\"} is offered"));
  if (reader.failure()) outer.fail(*reader.failure());
}

} // namespace paceline::wire
