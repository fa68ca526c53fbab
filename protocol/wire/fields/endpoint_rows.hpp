#pragma once

#include "protocol/wire/fields/field_spec.hpp"

namespace paceline::wire::rows {

// The rows of fields that only some endpoints have.

inline constexpr std::string_view only_text_type[] = {"text"};
inline constexpr std::string_view function_type[] = {"function"};
inline constexpr std::int64_t max_tools = 128;

inline constexpr field_spec completion_rows[] = {
    required(other(
        "prompt", in::completions, "string, [string], [id], [[id]]", {},
        R"({"anyOf":[{"type":"string"},{"type":"array","minItems":1,"items":{"type":"string"}},)"
        R"({"type":"array","minItems":1,"items":{"$ref":"#/components/schemas/token_id"}},)"
        R"({"type":"array","minItems":1,"items":{"type":"array","items":{"$ref":"#/components/schemas/token_id"}}}]})",
        "Several prompts, at most 256 sequences, give prompts × `n` choices, in that order.")),
    integer("max_tokens", in::whole_texts, -1, max_int32, "16 for completions, else the rest of the context",
            "-1: the rest of the context. 0 only with `echo`."),
    integer("n_predict", in::whole_texts, -1, max_int32, {}, "llama-server's name of `max_tokens`."),
    boolean("echo", in::completions, "false", "The prompt is part of the text."),
    integer("logprobs", in::completions, 0, 5, {},
            "Log-probabilities of the raw distribution, before temperature and penalties, and the likeliest "
            "tokens; with `echo` the prompt's, too."),
    integer("best_of", in::completions, 1, request_limits{}.max_choices, "`n`", "Must equal `n`."),
};

inline constexpr std::string_view effort_levels[] = {"none", "minimal", "low", "medium",
                                                     "high", "xhigh",   "max"};

inline constexpr field_spec chat_rows[] = {
    integer("max_completion_tokens", in::chat, -1, max_int32, {}, "OpenAI's newer name of `max_tokens`."),
    boolean("logprobs", in::chat, "false",
            "Log-probabilities, as in completions; without the token that ends the turn."),
    integer("top_logprobs", in::chat, 0, 20, "0", "The likeliest tokens at each position; needs `logprobs`."),
    boolean("add_generation_prompt", in::conversations, "true", "The template opens the assistant's turn."),
    closed(object("chat_template_kwargs", in::conversations,
                  "Variables of the chat template; others are refused.")),
    boolean("chat_template_kwargs.enable_thinking", in::conversations, "the template's",
            "Whether the model reasons first."),
    boolean("chat_template_kwargs.thinking", in::conversations, "the template's",
            "The same as `chat_template_kwargs.enable_thinking`."),
    boolean("enable_thinking", in::conversations, "the template's",
            "The same as `chat_template_kwargs.enable_thinking`."),
    choice("chat_template_kwargs.reasoning_effort", in::conversations, effort_levels, "the template's",
           "The same as `reasoning_effort`."),
    choice("reasoning_effort", in::conversations, effort_levels, "the template's",
           "How much the model reasons first, see *Tools and thoughts*."),
    choice_list("modalities", in::chat, 8, only_text_type, "Others are refused."),
};

inline constexpr std::string_view message_roles[] = {"system",    "developer", "user",
                                                     "assistant", "tool",      "function"};
inline constexpr std::string_view message_part_types[] = {"text", "input_text", "output_text", "refusal"};

inline constexpr field_spec message_rows[] = {
    required(list(field_type::object_list, "messages", in::chat, 1, request_limits{}.max_messages,
                  "The conversation, for the model's own chat template.")),
    list(field_type::object_list, "messages", in::tokenize, 1, request_limits{}.max_messages,
         "Instead of `prompt`: a conversation to tokenize."),
    required(choice("messages[].role", in::conversations, message_roles, {}, "Who speaks.")),
    list(field_type::text_or_objects, "messages[].content", in::conversations, 0, 0,
         "Required, except beside `tool_calls` and `refusal`. The texts of parts are joined by line breaks."),
    choice("messages[].content[].type", in::conversations, message_part_types, {}, "Others are refused."),
    text("messages[].content[].text", in::conversations | in::all_messages, 0, max_text_bytes, {},
         "Only in parts with text."),
    text("messages[].content[].refusal", in::conversations, 0, max_text_bytes, {},
         "Only for type `refusal`."),
    text("messages[].name", in::conversations, 1, 256, {}, "The speaker's name, for the template."),
    text("messages[].refusal", in::conversations, 0, max_text_bytes, {},
         "Only in messages of the assistant, instead of `content`."),
    text("messages[].reasoning_content", in::conversations, 0, max_text_bytes, {},
         "Thoughts of the assistant. The template decides whether they are part of the prompt."),
    text("messages[].reasoning", in::conversations, 0, max_text_bytes, {},
         "The same as `reasoning_content`."),
    list(field_type::object_list, "messages[].tool_calls", in::conversations, 0, 128,
         "Functions that the assistant called."),
    text("messages[].tool_calls[].id", in::conversations, 0, 256, {}, "Id of the call."),
    choice("messages[].tool_calls[].type", in::conversations, function_type, "\"function\"",
           "The kind of call."),
    required(object("messages[].tool_calls[].function", in::conversations, "What was called.")),
    required(text("messages[].tool_calls[].function.name", in::conversations, 1, 256, {}, "Its name.")),
    text("messages[].tool_calls[].function.arguments", in::conversations, 0, max_text_bytes, "\"{}\"",
         "JSON text of an object."),
    text("messages[].tool_call_id", in::conversations, 0, 256, {},
         "The call that is answered. Only for role `tool`."),
};

inline constexpr request_kinds with_thoughts = in::chat | in::all_responses;
inline constexpr std::string_view reasoning_formats[] = {"auto", "deepseek", "none"};

inline constexpr field_spec reasoning_rows[] = {
    choice("reasoning_format", with_thoughts, reasoning_formats, "\"auto\"",
           "`none`: thoughts stay in the text (see *Tools and thoughts*). llama-server's."),
    boolean("separate_reasoning", with_thoughts, "true", "false: as `reasoning_format` `none`. SGLang's."),
    boolean("include_reasoning", with_thoughts, "true", "false: thoughts are dropped. vLLM's."),
};

inline constexpr request_kinds with_tools = in::conversations | in::all_responses;

inline constexpr field_spec tool_rows[] = {
    list(field_type::object_list, "tools", with_tools | in::all_messages, 0, max_tools,
         "Functions that the model may call, of models that write calls in a known syntax (see *Tools and "
         "thoughts*)."),
    required(choice("tools[].type", with_tools, function_type, {}, "The kind of tool.")),
    object("tools[].function", with_tools, "The function, if its fields are not in the tool itself."),
    required(text("tools[].function.name", with_tools, 1, 256, {}, "Its name.")),
    text("tools[].function.description", with_tools, 0, max_text_bytes, {}, "What it does."),
    object("tools[].function.parameters", with_tools, "JSON Schema of its arguments."),
    text("tools[].name", with_tools, 1, 256, {}, "Its name; required without `function`."),
    text("tools[].description", with_tools | in::all_messages, 0, max_text_bytes, {}, "What it does."),
    object("tools[].parameters", with_tools, "JSON Schema of its arguments."),
    other(
        "tools[].strict", with_tools | in::all_messages, "anything", {}, "{}",
        "`true`: a demanded call must match the schema, and a schema that cannot be enforced is refused. Is "
        "passed to the template."),
    other(
        "tool_choice", with_tools, "`auto`, `none`, `required`, a function", "\"auto\"",
        R"({"anyOf":[{"enum":["auto","none","required",null]},{"type":"object"}]})",
        "`none`: the tools are left out of the prompt. `required`, and a function by its name: the output is a call."),
    boolean("parallel_tool_calls", with_tools, "true", "false: the reply ends after the first call."),
};

inline constexpr std::string_view item_types[] = {"message", "function_call", "function_call_output",
                                                  "reasoning", "item_reference"};
inline constexpr std::string_view item_part_types[] = {"text", "input_text", "output_text", "refusal",
                                                       "reasoning_text"};
inline constexpr std::string_view item_roles[] = {"system", "developer", "user", "assistant"};
inline constexpr std::string_view included[] = {"message.output_text.logprobs",
                                                "reasoning.encrypted_content"};
inline constexpr std::string_view truncations[] = {"disabled"};
inline constexpr std::string_view verbosities[] = {"medium"};

inline constexpr field_spec response_rows[] = {
    required_unless("previous_response_id",
                    list(field_type::text_or_objects, "input", in::all_responses, 0,
                         request_limits{}.max_messages,
                         "A user message, or items. Not required with `paceline.resume` either.")),
    choice("input[].type", in::all_responses, item_types, "\"message\"",
           "Others are refused. The template decides whether `reasoning` items are part of the prompt. "
           "`item_reference`: an item of a stored response's output (see *Stored responses*)."),
    text(
        "input[].id", in::all_responses, 1, 256, {},
        "Only in `item_reference`, where it is required; has no effect in others. An item with nothing but an "
        "`id` is such a reference, too."),
    choice("input[].role", in::all_responses, item_roles, {}, "Only in messages, where it is required."),
    list(field_type::text_or_objects, "input[].content", in::all_responses, 0, 0,
         "Only in messages, where it is required."),
    choice("input[].content[].type", in::all_responses, item_part_types, {},
           "Others are refused; `reasoning_text` is of `reasoning` items."),
    text("input[].content[].text", in::all_responses, 0, max_text_bytes, {}, "Only in parts with text."),
    text("input[].content[].refusal", in::all_responses, 0, max_text_bytes, {}, "Only for type `refusal`."),
    text("input[].call_id", in::all_responses, 0, 256, {}, "Only in calls and their outputs."),
    text("input[].name", in::all_responses, 1, 256, {}, "Only in calls, where it is required."),
    text("input[].arguments", in::all_responses, 0, max_text_bytes, "\"{}\"",
         "JSON text of an object. Only in calls."),
    list(field_type::text_or_objects, "input[].output", in::all_responses, 0, 0,
         "Text, or parts of text as in `content`. Only in outputs of calls, where it is required."),
    without_effect("input[].status", in::all_responses, "of the item"),
    text("instructions", in::all_responses, 0, max_text_bytes, {}, "A system message before the input."),
    text("previous_response_id", in::all_responses, 1, 128, {},
         "Continues a stored response of the same API key, or a response of the same connection."),
    integer("max_output_tokens", in::all_responses, -1, max_int32, "the rest of the context",
            "-1: the rest of the context."),
    integer("top_logprobs", in::all_responses, 0, 20, "0", "The likeliest tokens at each position."),
    choice_list("include", in::all_responses, 32, included,
                "Further parts of the reply; `reasoning.encrypted_content` has no effect."),
    other(
        "metadata", in::all_responses, "16 strings of 512 bytes under names of 64", {},
        R"({"type":["object","null"],"maxProperties":16,"propertyNames":{"maxLength":64},"additionalProperties":{"type":"string","maxLength":512}})",
        "Is part of the reply."),
    text("safety_identifier", in::all_responses, 0, 512, {},
         "Is part of the reply, and has no other effect."),
    text("prompt_cache_key", in::all_responses, 0, 512, {}, "Is part of the reply, and has no other effect."),
    boolean("store", in::all_responses, "true",
            "false: it cannot be read or continued later, except within its connection."),
    boolean("generate", in::all_responses, "true",
            "false: computes the input into the prefix cache and returns an empty response."),
    object("text", in::all_responses, "The kind of output."),
    choice("text.verbosity", in::all_responses, verbosities, "\"medium\"", "Others are refused."),
    object("reasoning", in::all_responses, "How the model reasons."),
    choice("reasoning.effort", in::all_responses, effort_levels, "the template's",
           "How much the model reasons first, see *Tools and thoughts*."),
    without_effect("reasoning.summary", in::all_responses, "thoughts are returned as they are"),
    without_effect("reasoning.generate_summary", in::all_responses, "thoughts are returned as they are"),
    other("background", in::all_responses, "`false`", "false", R"({"enum":[false,null]})",
          "See `paceline.resumable` instead."),
    choice("truncation", in::all_responses, truncations, "\"disabled\"", "Prompts are never truncated."),
};

inline constexpr std::string_view frame_types[] = {"response.create", "response.cancel"};

inline constexpr field_spec frame_rows[] = {
    required(choice("type", in::frames, frame_types, {}, "What the frame asks for.")),
    text("stream_id", in::frames, 1, 64, {}, "The lane."),
    text("response_id", in::frames, 1, 128, {}, "Only in `response.cancel`, where it is required."),
};

inline constexpr field_spec tokenizer_rows[] = {
    text("prompt", in::tokenize, 0, max_text_bytes, {}, "The text; required without `messages`."),
    text("content", in::tokenize, 0, max_text_bytes, {}, "llama-server's name of `prompt`."),
    boolean("add_special_tokens", in::tokenize, "true", "The text begins as the vocabulary says."),
    boolean("add_special", in::tokenize, "true", "llama-server's name of `add_special_tokens`."),
    boolean("parse_special", in::tokenize, "true", "The spelling of a special token is that token."),
    boolean("return_token_strs", in::tokenize, "false", "`token_strs` in the reply: the text of each token."),
    boolean("with_pieces", in::tokenize, "false", "llama-server's name of `return_token_strs`."),
    required(list(field_type::id_list, "tokens", in::detokenize, 0, max_text_bytes, "The tokens.")),
};

} // namespace paceline::wire::rows
