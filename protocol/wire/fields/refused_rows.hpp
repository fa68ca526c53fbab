#pragma once

#include "protocol/wire/fields/field_spec.hpp"

namespace paceline::wire::rows {

// Fields of other servers' APIs that this server does not support. Clients often send the defaults of the
// server for which they were written, so a value that asks for nothing is accepted. Any other value would
// change the answer, so it is refused, and the error names the field.

inline constexpr std::string_view sampling_option = "this sampling option is not offered";
inline constexpr std::string_view only_text = "only text is offered";

inline constexpr field_spec refused_rows[] = {
    refused("typical_p", in::generating, neutral_value::at_least_one, "1", sampling_option),
    refused("typ_p", in::generating, neutral_value::at_least_one, "1", sampling_option),
    refused("tfs_z", in::generating, neutral_value::at_least_one, "1", sampling_option),
    refused("mirostat", in::generating, neutral_value::zero, "0", sampling_option),
    refused("mirostat_mode", in::generating, neutral_value::zero, "0", sampling_option),
    refused("dry_multiplier", in::generating, neutral_value::zero, "0", sampling_option),
    refused("xtc_probability", in::generating, neutral_value::not_positive, "0", sampling_option),
    refused("top_n_sigma", in::generating, neutral_value::not_positive, "-1", sampling_option),
    refused("dynatemp_range", in::generating, neutral_value::not_positive, "0", sampling_option),
    refused("min_keep", in::generating, neutral_value::at_most_one, "0", sampling_option),
    refused("samplers", in::generating, neutral_value::none, "", "the order of the sampling steps is fixed"),
    refused("bad_words", in::generating, neutral_value::empty, "[]", sampling_option),
    refused("allowed_token_ids", in::generating, neutral_value::none, "", sampling_option),
    refused("logits_processors", in::generating, neutral_value::empty, "[]", sampling_option),
    refused("n_probs", in::generating, neutral_value::not_positive, "0", "use logprobs"),
    refused("post_sampling_probs", in::generating, neutral_value::is_false, "false", "use logprobs"),
    refused("n_indent", in::generating, neutral_value::not_positive, "0", "infilling is not offered"),
    refused("t_max_predict_ms", in::generating, neutral_value::not_positive, "0", "use max_tokens"),
    refused("truncate_prompt_tokens", in::generating, neutral_value::none, "", "prompts are never truncated"),
    refused("prompt_embeds", in::generating, neutral_value::none, "", "prompts are text or token ids"),
    refused("prompt_logprobs", in::generating, neutral_value::none, "",
            "use echo with logprobs on /v1/completions"),
    refused("image_data", in::generating, neutral_value::empty, "[]", only_text),
    refused("lora", in::generating, neutral_value::empty, "[]", "adapters are not offered"),
    refused("spaces_between_special_tokens", in::generating, neutral_value::is_true, "true",
            "special tokens are separated as the vocabulary does"),
};

inline constexpr field_spec refused_completion_rows[] = {
    refused("suffix", in::completions, neutral_value::empty, "\"\"", "infilling is not offered"),
    refused("add_special_tokens", in::completions, neutral_value::is_true, "true",
            "prompts that are text begin as the vocabulary says"),
};

inline constexpr field_spec refused_chat_rows[] = {
    refused("audio", in::chat, neutral_value::none, "", only_text),
    refused("web_search_options", in::chat, neutral_value::none, "", "web search is not offered"),
    refused("functions", in::chat, neutral_value::empty, "[]", "use tools"),
    refused("function_call", in::chat, neutral_value::calls_no_function, "\"none\"", "use tool_choice"),
    refused("verbosity", in::chat, neutral_value::medium, "\"medium\"", "this option is not offered"),
    refused("chat_template", in::chat, neutral_value::none, "", "the model's own template is used"),
    refused("documents", in::chat, neutral_value::empty, "[]", "documents are not offered"),
    refused("continue_final_message", in::chat, neutral_value::is_false, "false",
            "messages are never continued"),
    refused("add_special_tokens", in::chat, neutral_value::is_false, "false",
            "the template writes special tokens"),
};

inline constexpr field_spec refused_message_rows[] = {
    refused("messages[].audio", in::conversations, neutral_value::none, "", only_text),
    refused("messages[].function_call", in::conversations, neutral_value::none, "", "use tool_calls"),
};

inline constexpr field_spec refused_response_rows[] = {
    refused("conversation", in::all_responses, neutral_value::none, "", "use previous_response_id"),
    refused("prompt", in::all_responses, neutral_value::none, "", "stored prompts are not offered"),
    refused("context_management", in::all_responses, neutral_value::none, "", "contexts are never compacted"),
    refused("max_tool_calls", in::all_responses, neutral_value::none, "", "no built-in tools are offered"),
};

inline constexpr field_spec refused_http_response_rows[] = {
    refused("stream_id", in::responses, neutral_value::none, "", "lanes belong to the WebSocket mode"),
};

// Fields that would not change the answer with any value.

inline constexpr std::string_view bookkeeping = "bookkeeping of OpenAI's own service";
inline constexpr std::string_view parameter = "parameter of a refused option";
inline constexpr std::string_view placement =
    "llama-server's: where a prompt is computed and what is dropped of it";

inline constexpr field_spec rows_without_effect[] = {
    without_effect("metadata", in::whole_texts, bookkeeping),
    without_effect("store", in::whole_texts, bookkeeping),
    without_effect("service_tier", in::generating, bookkeeping),
    without_effect("prompt_cache_retention", in::generating, bookkeeping),
    without_effect("stream_options.include_obfuscation", in::generating, bookkeeping),
    without_effect("safety_identifier", in::whole_texts | in::all_messages, bookkeeping),
    without_effect("prompt_cache_key", in::whole_texts | in::all_messages, bookkeeping),
    without_effect("event_id", in::frames, bookkeeping),
    without_effect("mirostat_tau", in::generating, parameter),
    without_effect("mirostat_eta", in::generating, parameter),
    without_effect("dry_base", in::generating, parameter),
    without_effect("dry_allowed_length", in::generating, parameter),
    without_effect("dry_penalty_last_n", in::generating, parameter),
    without_effect("dry_sequence_breakers", in::generating, parameter),
    without_effect("xtc_threshold", in::generating, parameter),
    without_effect("dynatemp_exponent", in::generating, parameter),
    without_effect("n_keep", in::generating, placement),
    without_effect("n_discard", in::generating, placement),
    without_effect("id_slot", in::generating, placement),
    without_effect("cache_prompt", in::generating, placement),
    without_effect("timings_per_token", in::generating, "llama-server's: `timings` are in the last chunk"),
};

} // namespace paceline::wire::rows
