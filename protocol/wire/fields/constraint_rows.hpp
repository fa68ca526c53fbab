#pragma once

#include "protocol/wire/fields/field_spec.hpp"

namespace paceline::wire::rows {

// Fields that say what an output must match. A request may have one of them.

inline constexpr request_kinds with_format = in::whole_texts | in::all_messages;
inline constexpr std::string_view format_types[] = {"text", "json_object", "json_schema"};
inline constexpr std::string_view json_schema_of_schemas =
    R"({"anyOf":[{"type":["object","boolean"]},{"type":"string","contentMediaType":"application/json"}]})";
inline constexpr std::string_view list_of_texts =
    R"({"type":["array","null"],"minItems":1,"maxItems":4096,"items":{"type":"string","minLength":1}})";
inline constexpr std::int64_t max_grammar_bytes = 256 << 10;

consteval field_spec schema_row(std::string_view path, request_kinds where, std::string_view doc) {
  return other(path, where, "a JSON Schema, or its text", {}, json_schema_of_schemas, doc);
}

inline constexpr field_spec constraint_rows[] = {
    object("response_format", with_format, "See *Structured output*."),
    required(
        choice("response_format.type", with_format, format_types, {}, "`json_object`: any JSON object.")),
    object("response_format.json_schema", with_format, "Only for type `json_schema`, where it is required."),
    required(schema_row("response_format.json_schema.schema", with_format, "What the output matches.")),
    without_effect("response_format.json_schema.name", with_format, "of the schema"),
    without_effect("response_format.json_schema.description", with_format, "of the schema"),
    without_effect("response_format.json_schema.strict", with_format, "every schema is enforced"),
    schema_row("response_format.schema", with_format, "llama-server's place for the schema."),
    without_effect("response_format.name", with_format, "of the schema"),
    without_effect("response_format.description", with_format, "of the schema"),
    without_effect("response_format.strict", with_format, "every schema is enforced"),
    object("text.format", in::all_responses, "See *Structured output*."),
    required(
        choice("text.format.type", in::all_responses, format_types, {}, "`json_object`: any JSON object.")),
    schema_row("text.format.schema", in::all_responses, "Only for type `json_schema`, where it is required."),
    without_effect("text.format.name", in::all_responses, "of the schema"),
    without_effect("text.format.description", in::all_responses, "of the schema"),
    without_effect("text.format.strict", in::all_responses, "every schema is enforced"),
    object("structured_outputs", in::generating, "vLLM's; one of its fields."),
    schema_row("structured_outputs.json", in::generating, "What the output matches."),
    text("structured_outputs.regex", in::generating, 0, max_grammar_bytes, {},
         "A pattern for the whole output."),
    other("structured_outputs.choice", in::generating, "1 to 4096 texts", {}, list_of_texts,
          "The output is one of them."),
    text("structured_outputs.grammar", in::generating, 0, max_grammar_bytes, {}, "A grammar in GBNF."),
    boolean("structured_outputs.json_object", in::generating, "false", "The output is any JSON object."),
    refused("structured_outputs.structural_tag", in::generating, neutral_value::none, "", "use tools"),
    without_effect("structured_outputs.disable_fallback", in::generating, "there is no fallback"),
    without_effect("structured_outputs.disable_any_whitespace", in::generating, "of vLLM's implementation"),
    without_effect("structured_outputs.disable_additional_properties", in::generating,
                   "of vLLM's implementation"),
    without_effect("structured_outputs.whitespace_pattern", in::generating, "of vLLM's implementation"),
    schema_row("guided_json", in::generating, "vLLM's older name of `structured_outputs.json`."),
    text("guided_regex", in::generating, 0, max_grammar_bytes, {}, "The same as `structured_outputs.regex`."),
    other("guided_choice", in::generating, "1 to 4096 texts", {}, list_of_texts,
          "The same as `structured_outputs.choice`."),
    text("guided_grammar", in::generating, 0, max_grammar_bytes, {},
         "The same as `structured_outputs.grammar`."),
    without_effect("guided_decoding_backend", in::generating, "there is one"),
    text("grammar", in::generating, 0, max_grammar_bytes, {},
         "llama-server's: a grammar in GBNF; empty: none."),
    schema_row("json_schema", in::generating, "llama-server's: what the output matches."),
};

} // namespace paceline::wire::rows
