#pragma once

#include "protocol/wire/fields/constraint_rows.hpp"
#include "protocol/wire/fields/endpoint_rows.hpp"
#include "protocol/wire/fields/field_spec.hpp"

namespace paceline::wire::rows {

// Table entries (`field_spec`) for the fields of Anthropic's Messages API that other endpoints lack or define
// differently.

inline constexpr std::string_view message_api_roles[] = {"user", "assistant"};
inline constexpr std::string_view block_types[] = {"text", "tool_use", "tool_result", "thinking",
                                                   "redacted_thinking"};
inline constexpr std::string_view custom_type[] = {"custom"};
inline constexpr std::string_view tool_choices[] = {"auto", "none", "any", "tool"};
inline constexpr std::string_view thinking_types[] = {"disabled", "enabled", "adaptive"};
inline constexpr std::string_view thinking_displays[] = {"summarized", "omitted"};
inline constexpr std::string_view schema_format[] = {"json_schema"};

inline constexpr std::string_view no_thoughts =
    "belongs to a thinking block, of which only the text can be part of the prompt";
inline constexpr std::string_view cache_control =
    "the prefix cache is set for the whole engine (`engine.prefix_cache`)";

inline constexpr field_spec message_api_rows[] = {
    required(
        integer("max_tokens", in::messages, 1, max_int32, {},
                "If prompt and reply would exceed the context, it is reduced to the room after the prompt.")),
    integer("max_tokens", in::count_tokens, 1, max_int32, {}, "Has no influence on the count."),
    list(field_type::text_or_objects, "system", in::all_messages, 0, 0,
         "The system message: text, or blocks of text."),
    required(choice("system[].type", in::all_messages, only_text_type, {}, "Others are refused.")),
    required(text("system[].text", in::all_messages, 0, max_text_bytes, {}, "The text.")),
    required(list(
        field_type::object_list, "messages", in::all_messages, 1, request_limits{}.max_messages,
        "The conversation; its last message is the user's. At most 4096 turns; each `tool_result` counts as "
        "one.")),
    required(choice("messages[].role", in::all_messages, message_api_roles, {}, "Who speaks.")),
    required(list(field_type::text_or_objects, "messages[].content", in::all_messages, 1, max_text_bytes,
                  "Text, or blocks. The texts of blocks are joined by line breaks.")),
    required(choice(
        "messages[].content[].type", in::all_messages, block_types, {},
        "The user's messages may have `tool_result`. The assistant's may have thoughts and at most 128 "
        "`tool_use`. Others are refused.")),
    text("messages[].content[].id", in::all_messages, 0, 256, {},
         "Id of the call. Only in `tool_use` blocks."),
    text("messages[].content[].name", in::all_messages, 1, 256, {},
         "Only in `tool_use` blocks, where it is required."),
    object("messages[].content[].input", in::all_messages,
           "Only in `tool_use` blocks, where it is required."),
    text(
        "messages[].content[].thinking", in::all_messages, 0, max_text_bytes, {},
        "Only in `thinking` blocks. The template decides whether thoughts of earlier turns are part of the prompt."),
    text("messages[].content[].tool_use_id", in::all_messages, 1, 256, {},
         "Only in `tool_result` blocks, where it is required."),
    list(field_type::text_or_objects, "messages[].content[].content", in::all_messages, 0, 0,
         "Text, or blocks of text. Only in `tool_result` blocks."),
    required(choice("messages[].content[].content[].type", in::all_messages, only_text_type, {},
                    "Others are refused.")),
    required(
        text("messages[].content[].content[].text", in::all_messages, 0, max_text_bytes, {}, "The text.")),
    number("temperature", in::all_messages, {0, 1}, "1", "0: the most likely token."),
    text_list("stop_sequences", in::all_messages, 16, 1024,
              "Texts at which the output ends. Empty ones stop nothing."),
    choice("tools[].type", in::all_messages, custom_type, "\"custom\"",
           "Other types are refused: they are tools that Anthropic's servers run."),
    required(text("tools[].name", in::all_messages, 1, 256, {}, "Its name.")),
    required(object("tools[].input_schema", in::all_messages, "JSON Schema of its arguments.")),
    object("tool_choice", in::all_messages, "How tools are used."),
    required(choice(
        "tool_choice.type", in::all_messages, tool_choices, {},
        "`none`: the tools are left out of the prompt. `any`, and `tool` with a `name`: the output is a "
        "call.")),
    text("tool_choice.name", in::all_messages, 1, 256, {}, "Only for type `tool`, where it is required."),
    boolean("tool_choice.disable_parallel_tool_use", in::all_messages, "false",
            "The reply ends after the first call."),
    object("thinking", in::all_messages, "Whether the model reasons first."),
    required(choice("thinking.type", in::all_messages, thinking_types, {},
                    "Sets `enable_thinking` of the template. `adaptive`: the template's default.")),
    integer("thinking.budget_tokens", in::all_messages, 1, max_int32, {},
            "Is not enforced: thoughts end when the model ends them."),
    choice(
        "thinking.display", in::all_messages, thinking_displays, "\"summarized\"",
        "`omitted`: thoughts are dropped. `summarized`: the reply has them in full; they are not summarized."),
    object("metadata", in::all_messages, "Whose request it is."),
    text("metadata.user_id", in::all_messages, 0, 512, {}, "The same as `user`."),
    object("output_config", in::all_messages, "What the output is like."),
    choice("output_config.effort", in::all_messages, effort_levels, "the template's",
           "How much the model reasons first, see *Tools and thoughts*."),
    object("output_config.format", in::all_messages, "See *Structured output*."),
    required(choice("output_config.format.type", in::all_messages, schema_format, {}, "The only one.")),
    required(schema_row("output_config.format.schema", in::all_messages, "What the output matches.")),
};

inline constexpr std::string_view no_server_tools = "no tools are run here";

inline constexpr field_spec refused_message_api_rows[] = {
    refused("stop", in::all_messages, neutral_value::none, "", "use stop_sequences"),
    refused("container", in::all_messages, neutral_value::none, "", no_server_tools),
    refused("mcp_servers", in::all_messages, neutral_value::empty, "[]", no_server_tools),
    refused("return_token_ids", in::all_messages, neutral_value::is_false, "false",
            "is offered on the other endpoints"),
};

inline constexpr field_spec message_api_rows_without_effect[] = {
    without_effect("cache_control", in::all_messages, cache_control),
    without_effect("system[].cache_control", in::all_messages, cache_control),
    without_effect("messages[].content[].cache_control", in::all_messages, cache_control),
    without_effect("tools[].cache_control", in::all_messages, cache_control),
    without_effect("messages[].content[].is_error", in::all_messages, "templates have no place for it"),
    without_effect("messages[].content[].signature", in::all_messages, no_thoughts),
    without_effect("messages[].content[].data", in::all_messages, no_thoughts),
    // Claude Code sends this field in every request.
    told_as_ignored(without_effect("context_management", in::all_messages,
                                   "contexts are never compacted; `x-paceline-ignored-fields` names it")),
    without_effect("speed", in::all_messages, "the answer would be the same"),
    without_effect("inference_geo", in::all_messages, "the answer would be the same"),
};

} // namespace paceline::wire::rows
