#pragma once

#include "protocol/wire/fields/field_spec.hpp"
#include "runtime/base/request.hpp"
#include "runtime/base/request_limits.hpp"

namespace paceline::wire::rows {

// The rows of fields that all generating endpoints have.

inline constexpr std::string_view content_types[] = {"content"};
inline constexpr std::string_view prediction_part_types[] = {"text"};

inline constexpr field_spec request_rows[] = {
    text(
        "model", in::generating | in::tokenize | in::detokenize, 0, 256, "the first model",
        "A configured name or alias; `default` is the first model. The tokenizer endpoints require it where several "
        "models are served."),
    integer("n", in::whole_texts, 1, request_limits{}.max_choices, "1", "Choices for each prompt."),
    integer("n", in::all_responses | in::all_messages, 1, 1, "1", "Responses and messages have one choice."),
    integer(
        "priority", in::generating, -max_int32 - 1, max_int32, "0",
        "Lower runs first. If the daemon has keys, values below 0 need one that allows them (see *Who may connect*)."),
    integer(
        "deadline_ms", in::generating, 1, max_int32, "`server.request_timeout`",
        "Time from admission to the last token, at most the configured one; then 408 `deadline_exceeded`, in a stream "
        "an error event."),
    text(
        "user", in::generating, 0, 512, {},
        "The end user. Drafters that learn from outputs use only outputs of the same user, `cache_salt` and API key."),
    text(
        "request_id", in::whole_texts | in::all_messages, 1, 128, {},
        "The client's own name for the request, in printable ASCII without spaces; it becomes part of the reply's "
        "`id`."),
    text("request_id", in::all_responses, 1, 128, {},
         "Printable ASCII without spaces. Has no effect: the server chooses the ids of responses."),
    text("cache_salt", in::generating, 1, 512, {},
         "Prompts share cached prefixes only within the same salt, and never across API keys."),
};

inline constexpr field_spec sampling_rows[] = {
    number("temperature", in::openai, {0, 2}, "1", "0: the most likely token; ties go to the lowest id."),
    number(
        "top_p", in::generating, {0, 1}, "1",
        "The smallest set of tokens that has this probability. 0: the most likely token, as in llama-server."),
    number("min_p", in::generating, {0, 1}, "0",
           "Least probability of a token, relative to that of the most likely one."),
    integer("top_k", in::generating, -1, max_int32, "0", "The most likely tokens. 0 or -1: all."),
    number("repetition_penalty", in::generating, {0.01F, 100}, "1", "Over prompt and output."),
    number("repeat_penalty", in::generating, {0.01F, 100}, "1",
           "llama-server's name of `repetition_penalty`."),
    integer("repeat_last_n", in::generating, -1, max_int32, "-1",
            "llama-server's. Penalties count all tokens: with one, only -1 is accepted."),
    number("presence_penalty", in::generating, {-2, 2}, "0", "Over the output."),
    number("frequency_penalty", in::generating, {-2, 2}, "0", "Over the output."),
    [] {
      auto biases =
          row("logit_bias", in::generating, field_type::number_map,
              "Added to the logits of these tokens. An empty list, as llama-server's clients send it, is "
              "none.");
      biases.range = {-100, 100};
      return biases;
    }(),
    other(
        "seed", in::generating, "-2^63 to 2^64 - 1", "random",
        R"({"type":["integer","null"],"minimum":-9223372036854775808,"maximum":18446744073709551615})",
        "The same seed gives the same tokens, whatever the batch, drafter and restarts (rule `coupled`). -1: random. "
        "Another negative seed -s is the same as 2^64 - s."),
    integer("first_target", in::generating, 0, max_int32, {}, "A token id: forces the first output token."),
};

inline constexpr field_spec ending_rows[] = {
    [] {
      auto strings = list(field_type::text_or_list, "stop", in::openai, 0, 16,
                          "Text at which the output ends. Empty strings stop nothing.");
      strings.most_bytes = 1024;
      return strings;
    }(),
    list(field_type::id_list, "stop_token_ids", in::generating, 0, 256, "Tokens at which the output ends."),
    integer("min_tokens", in::generating, 0, max_int32, "0",
            "The output does not end before it has as many tokens."),
    boolean("ignore_eos", in::generating, "false", "The model's end tokens do not end the output."),
    boolean("include_stop_str_in_output", in::generating, "false",
            "The text that stopped the output is part of it."),
    boolean("skip_special_tokens", in::generating, "true", "Special tokens are left out of the text."),
};

inline constexpr field_spec reply_rows[] = {
    boolean("stream", in::whole_texts | in::responses | in::all_messages, "false",
            "The reply is an event stream (see *Replies*)."),
    other("stream", in::frames, "`true`", "true", R"({"enum":[true,null]})", "Events are always streamed."),
    object("stream_options", in::generating, "Only with `stream: true`."),
    boolean("stream_options.include_usage", in::generating, "false",
            "A last chunk has `usage`; streams of messages always have it."),
    boolean("stream_options.continuous_usage_stats", in::generating, "false",
            "Every chunk has `usage` so far; not in messages."),
    boolean("return_token_ids", in::openai, "false", "`token_ids` and `prompt_token_ids` in replies."),
    object("paceline", in::openai, "See *Additions*."),
    boolean("paceline.token_ids", in::openai, "false", "The same as `return_token_ids`."),
    boolean("paceline.trace", in::openai, "false", "What each round did."),
    boolean("paceline.resumable", in::all_responses, "false", "The response outlives its connection."),
    object("paceline.resume", in::frames,
           "Continues to read a response. Over HTTP: `GET /v1/responses/{id}`."),
    required(text("paceline.resume.response_id", in::frames, 1, 128, {}, "The response.")),
    integer("paceline.resume.next_token", in::frames, 0, max_int32, "0",
            "Output index of the first token that the client has not seen."),
};

inline constexpr field_spec speculation_rows[] = {
    object("speculation", in::generating, "See *Additions*."),
    text("speculation.drafter", in::generating, 1, 128, "\"default\"",
         "`auto`, `none` (plain decoding), `default` (the model's), or one of the model's drafters."),
    integer("speculation.draft_length", in::generating, 1, max_draft_length - 1, "the drafter's",
            "Draft tokens in a round."),
    choice("speculation.length_rule", in::generating, length_rule_names, "the server decides",
           "How the draft length adapts ([auto.md](auto.md))."),
    choice("speculation.overlap", in::generating, overlap_request_names, "the server decides",
           "What is drafted during verification ([overlap.md](overlap.md))."),
    choice("speculation.rule", in::generating, verification_rule_names, "the model's",
           "Which draft tokens are kept ([verification.md](verification.md))."),
    number("speculation.lenience", in::generating, {0, 1, true}, "0.5", "Only for rule `lenient`."),
    number("speculation.epsilon", in::generating, {0, 1, true}, "0.09", "Only for rule `typical`."),
    number("speculation.delta", in::generating, {0, 1, true}, "0.3", "Only for rule `typical`."),
    object("prediction", in::generating, "The client's own draft of the output (see *Additions*)."),
    required(choice("prediction.type", in::generating, content_types, {}, "OpenAI's only one.")),
    required(other(
        "prediction.content", in::generating, "string, parts of text, or token ids", {},
        R"({"anyOf":[{"type":"string"},{"type":"array","items":{"type":"object","required":["type","text"],)"
        R"("properties":{"type":{"const":"text"},"text":{"type":"string"}}}},{"type":"array","items":{"$ref":"#/components/schemas/token_id"}}]})",
        "Expected output. Token ids are an extension.")),
    required(
        choice("prediction.content[].type", in::generating, prediction_part_types, {}, "The kind of part.")),
    required(text("prediction.content[].text", in::generating, 0, max_int32, {}, "Its text.")),
};

inline constexpr field_spec beam_rows[] = {
    boolean("use_beam_search", in::whole_texts, "false",
            "Returns the `n` likeliest texts ([beam_search.md](beam_search.md))."),
    other("use_beam_search", in::all_responses | in::all_messages, "`false`", "false",
          R"({"enum":[false,null]})", "Is offered on `/v1/completions` and `/v1/chat/completions`."),
    integer("beam_width", in::whole_texts, 1, max_beam_width, "`n`",
            "Hypotheses kept in each step, at least `n`."),
    number("length_penalty", in::whole_texts, {-10, 10}, "1",
           "Exponent of the length by which scores are divided."),
    other("early_stopping", in::whole_texts, "`true`", "true", R"({"enum":[true,null]})",
          "The search ends when `beam_width` hypotheses have ended."),
};

} // namespace paceline::wire::rows
