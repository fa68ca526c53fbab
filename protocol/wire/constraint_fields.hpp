#pragma once

#include "runtime/grammar/grammar_compiler.hpp"

#include <optional>
#include <string>

namespace paceline::wire {

class field_reader;

/// What the output must match, and the field in which the client sent it.
struct output_constraint {
  grammar::grammar_source source;
  std::string field; ///< path, for errors: "response_format.json_schema.schema"
};

/// Reads the fields that constrain an output; a request may have one of them. OpenAI: `response_format`
/// (json_object and json_schema, also in llama-server's form with `schema` beside `type`). vLLM:
/// `structured_outputs`, `guided_json`, `guided_regex`, `guided_choice`, `guided_grammar`. llama-server:
/// `grammar` and `json_schema`.
void read_constraint(field_reader& reader, std::optional<output_constraint>& out);

/// Reads the member `format` of the Responses API's `text`.
void read_text_format(field_reader& text, std::optional<output_constraint>& out);

/// Reads the member `format` of the Messages API's `output_config`.
void read_output_format(field_reader& output_config, std::optional<output_constraint>& out);

} // namespace paceline::wire
