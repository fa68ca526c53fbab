#include "protocol/wire/constraint_fields.hpp"

#include "protocol/wire/field_reader.hpp"
#include "protocol/wire/fields/field_table.hpp"

#include <utility>

namespace paceline::wire {

namespace {

using source_kind = grammar::grammar_source::kind;

void set(field_reader& reader, std::string_view name, source_kind what, std::string text,
         std::optional<output_constraint>& out) {
  if (out)
    return reader.fail(name, "constrains the output, and so does " + out->field + "; only one is allowed");
  out = output_constraint{{what, std::move(text)}, reader.path_of(name)};
}

/// Reads a schema, which is an object, or, as some clients send it, the JSON text of an object.
void read_schema(field_reader& reader, const field_spec& row, std::optional<output_constraint>& out) {
  const auto name = row.name;
  const auto schema = reader.find(row);
  if (!schema) return;
  if (schema->is_object() || schema->is_bool())
    return set(reader, name, source_kind::json_schema, compact(*schema), out);
  auto text = schema->string();
  if (!text) return reader.fail(name, "must be a JSON schema, not " + std::string(kind_of(*schema)));
  if (!parse_object(*text)) return reader.fail(name, "must be a JSON schema, or the JSON text of one");
  set(reader, name, source_kind::json_schema, *std::move(text), out);
}

void read_grammar_text(field_reader& reader, const field_spec& row, source_kind what,
                       std::optional<output_constraint>& out) {
  std::string text;
  if (reader.text(row, text) && !text.empty()) set(reader, row.name, what, std::move(text), out);
}

void read_choice(field_reader& reader, const field_spec& row, std::optional<output_constraint>& out) {
  const auto list = reader.array(row.name, 1, 4096);
  if (!list) return;
  std::size_t i = 0;
  for (const auto text : *list) {
    const auto place = indexed(row.name, i++);
    if (!text.is_string()) return reader.fail(place, "must be a string, not " + std::string(kind_of(text)));
    if (text.is_string("")) return reader.fail(place, "must not be empty");
  }
  set(reader, row.name, source_kind::choice, compact(*reader.find(row)), out);
}

/// The rows of a format. It is `response_format`, or `text.format` of the Responses API.
struct format_rows {
  const field_spec &type, &schema, &name, &description, &strict;
};

/// Reads a schema in its own object, as chats have it.
void read_named_schema(field_reader& outer, std::optional<output_constraint>& out) {
  const auto fields = outer.object(spec("response_format.json_schema"));
  if (!fields) outer.fail("json_schema", "is required");
  if (outer.failure()) return;
  field_reader reader(*fields, outer.path_of("json_schema"));
  reader.accept(spec("response_format.json_schema.name"));
  reader.accept(spec("response_format.json_schema.description"));
  reader.accept(spec("response_format.json_schema.strict"));
  const auto& schema = spec("response_format.json_schema.schema");
  if (!reader.find(schema)) reader.fail("schema", "is required");
  read_schema(reader, schema, out);
  outer.adopt(reader);
}

/// `nested` means that the schema is in "json_schema".
void read_format(field_reader& reader, const format_rows& rows, bool nested,
                 std::optional<output_constraint>& out) {
  const auto type = reader.choice(rows.type);
  if (!type) reader.fail("type", "is required");
  for (const auto* row : {&rows.name, &rows.description, &rows.strict}) reader.accept(*row);
  if (reader.failure()) return;
  const bool has_schema = *type != 0 && reader.find(rows.schema).has_value();
  if (*type == 0) {
    reader.accept(rows.schema);
    if (nested) reader.accept(spec("response_format.json_schema"));
  } else if (*type == 2 && nested) {
    read_named_schema(reader, out);
  } else if (has_schema) {
    read_schema(reader, rows.schema, out);
  } else if (*type == 2) {
    reader.fail("schema", "is required");
  } else {
    set(reader, "type", source_kind::json_object, "", out);
  }
}

void read_response_format(field_reader& outer, std::optional<output_constraint>& out) {
  const auto fields = outer.object(spec("response_format"));
  if (!fields) return;
  field_reader reader(*fields, outer.path_of("response_format"));
  read_format(reader,
              {spec("response_format.type"), spec("response_format.schema"), spec("response_format.name"),
               spec("response_format.description"), spec("response_format.strict")},
              true, out);
  outer.adopt(reader);
}

void read_structured_outputs(field_reader& outer, std::optional<output_constraint>& out) {
  const auto fields = outer.object(spec("structured_outputs"));
  if (!fields) return;
  field_reader reader(*fields, outer.path_of("structured_outputs"));
  read_schema(reader, spec("structured_outputs.json"), out);
  read_grammar_text(reader, spec("structured_outputs.regex"), source_kind::regex, out);
  read_choice(reader, spec("structured_outputs.choice"), out);
  read_grammar_text(reader, spec("structured_outputs.grammar"), source_kind::ebnf, out);
  bool any_object = false;
  if (reader.boolean(spec("structured_outputs.json_object"), any_object) && any_object)
    set(reader, "json_object", source_kind::json_object, "", out);
  reader.refuse(spec("structured_outputs.structural_tag"));
  reader.accept(spec("structured_outputs.disable_fallback"));
  reader.accept(spec("structured_outputs.disable_any_whitespace"));
  reader.accept(spec("structured_outputs.disable_additional_properties"));
  reader.accept(spec("structured_outputs.whitespace_pattern"));
  outer.adopt(reader);
}

} // namespace

void read_constraint(field_reader& reader, std::optional<output_constraint>& out) {
  read_response_format(reader, out);
  read_structured_outputs(reader, out);
  read_schema(reader, spec("guided_json"), out);
  read_grammar_text(reader, spec("guided_regex"), source_kind::regex, out);
  read_choice(reader, spec("guided_choice"), out);
  read_grammar_text(reader, spec("guided_grammar"), source_kind::ebnf, out);
  read_grammar_text(reader, spec("grammar"), source_kind::ebnf, out);
  read_schema(reader, spec("json_schema"), out);
  reader.accept(spec("guided_decoding_backend"));
}

void read_text_format(field_reader& text, std::optional<output_constraint>& out) {
  const auto fields = text.object(spec("text.format"));
  if (!fields) return;
  field_reader reader(*fields, text.path_of("format"));
  read_format(reader,
              {spec("text.format.type"), spec("text.format.schema"), spec("text.format.name"),
               spec("text.format.description"), spec("text.format.strict")},
              false, out);
  text.adopt(reader);
}

void read_output_format(field_reader& output_config, std::optional<output_constraint>& out) {
  const auto fields = output_config.object(spec("output_config.format"));
  if (!fields) return;
  field_reader reader(*fields, output_config.path_of("format"));
  const auto& schema = spec("output_config.format.schema");
  if (!reader.choice(spec("output_config.format.type"))) reader.fail("type", "is required");
  if (!reader.find(schema)) reader.fail("schema", "is required");
  read_schema(reader, schema, out);
  output_config.adopt(reader);
}

} // namespace paceline::wire
