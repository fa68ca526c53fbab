#include "protocol/wire/fields/request_schema.hpp"

#include "protocol/wire/fields/field_table.hpp"

#include <charconv>
#include <string>

namespace paceline::wire {

namespace {

/// Writes the types. Null counts as absent, so null is also allowed for a field that is not required.
void write_type(json_writer& out, const field_spec& row, std::initializer_list<std::string_view> types) {
  out.key("type");
  if (row.required && types.size() == 1) {
    out.value(*types.begin());
    return;
  }
  out.begin_array();
  for (const auto type : types) out.value(type);
  if (!row.required) out.value("null");
  out.end_array();
}

void write_choices(json_writer& out, std::span<const std::string_view> choices, bool or_null) {
  out.key("enum").begin_array();
  for (const auto choice : choices) out.value(choice);
  if (or_null) out.null();
  out.end_array();
}

/// Writes the decimal text of the float, so that 0.01F becomes 0.01.
void write_bound(json_writer& out, std::string_view name, float bound) {
  char text[32];
  out.key(name).raw(
      {text, static_cast<std::size_t>(std::to_chars(text, text + sizeof text, bound).ptr - text)});
}

void write_range(json_writer& out, const float_range& range) {
  write_bound(out, range.min_excluded ? "exclusiveMinimum" : "minimum", range.min);
  write_bound(out, "maximum", range.max);
}

/// Bounds of a text's bytes or a list's elements; a bound that the body's limit implies is left out.
void write_sizes(json_writer& out, const field_spec& row, std::string_view least, std::string_view most) {
  if (row.least > 0) out.field(least, row.least);
  if (row.most > 0 && row.most < max_text_bytes) out.field(most, row.most);
}

void write_token_ids(json_writer& out) {
  out.key("items").begin_object().field("$ref", "#/components/schemas/token_id").end_object();
}

void write_texts(json_writer& out, const field_spec& row) {
  out.key("items").begin_object().field("type", "string").field("maxLength", row.most_bytes).end_object();
}

void write_number_map(json_writer& out, const field_spec& row) {
  write_type(out, row, {"object", "array"});
  out.field("maxItems", 0);
  out.key("propertyNames").begin_object().field("pattern", "^(0|[1-9][0-9]{0,8})$").end_object();
  out.key("additionalProperties").begin_object().field("type", "number");
  write_range(out, row.range);
  out.end_object();
}

/// Writes the values of a refused field that are accepted.
void write_neutral(json_writer& out, neutral_value neutral) {
  switch (neutral) {
  case neutral_value::none:
    out.field("type", "null");
    return;
  case neutral_value::is_true:
    out.key("enum").raw("[true,null]");
    return;
  case neutral_value::is_false:
    out.key("enum").raw("[false,null]");
    return;
  case neutral_value::zero:
    out.key("enum").raw("[0,null]");
    return;
  case neutral_value::not_positive:
    out.key("type").raw(R"(["number","null"])").field("maximum", 0);
    return;
  case neutral_value::at_least_one:
    out.key("type").raw(R"(["number","null"])").field("minimum", 1);
    return;
  case neutral_value::at_most_one:
    out.key("type").raw(R"(["number","null"])").field("maximum", 1);
    return;
  case neutral_value::empty:
    out.key("type").raw(R"(["string","array","object","null"])");
    out.field("maxLength", 0).field("maxItems", 0).field("maxProperties", 0);
    return;
  case neutral_value::medium:
    out.key("enum").raw(R"(["medium",null])");
    return;
  case neutral_value::calls_no_function:
    out.key("enum").raw(R"(["none","auto",null])");
    return;
  }
}

void write_members(json_writer& out, request_kinds kind, std::string_view path, bool is_closed);

void write_elements(json_writer& out, const field_spec& row, request_kinds kind) {
  write_sizes(out, row, "minItems", "maxItems");
  out.key("items").begin_object().field("type", "object");
  write_members(out, kind, path_of(row) + "[]", false);
  out.end_object();
}

void write_text(json_writer& out, const field_spec& row) {
  if (!row.choices.empty()) {
    write_choices(out, row.choices, !row.required);
    return;
  }
  write_type(out, row, {"string"});
  write_sizes(out, row, "minLength", "maxLength");
}

/// Writes the parts of the schema that depend on the type.
void write_value(json_writer& out, const field_spec& row, request_kinds kind) {
  switch (row.type) {
  case field_type::boolean:
    return write_type(out, row, {"boolean"});
  case field_type::integer:
    write_type(out, row, {"integer"});
    out.field("minimum", row.least).field("maximum", row.most);
    return;
  case field_type::number:
    write_type(out, row, {"number"});
    return write_range(out, row.range);
  case field_type::text:
    return write_text(out, row);
  case field_type::object:
    write_type(out, row, {"object"});
    return write_members(out, kind, path_of(row), row.is_closed);
  case field_type::object_list:
    write_type(out, row, {"array"});
    return write_elements(out, row, kind);
  case field_type::text_or_objects:
    write_type(out, row, {"string", "array"});
    return write_elements(out, row, kind);
  case field_type::text_or_list:
    write_type(out, row, {"string", "array"});
    out.field("maxLength", row.most_bytes);
    write_sizes(out, row, "minItems", "maxItems");
    return write_texts(out, row);
  case field_type::text_list:
    write_type(out, row, {"array"});
    write_sizes(out, row, "minItems", "maxItems");
    return write_texts(out, row);
  case field_type::choice_list:
    write_type(out, row, {"array"});
    write_sizes(out, row, "minItems", "maxItems");
    out.key("items").begin_object();
    write_choices(out, row.choices, false);
    out.end_object();
    return;
  case field_type::id_list:
    write_type(out, row, {"array"});
    write_sizes(out, row, "minItems", "maxItems");
    return write_token_ids(out);
  case field_type::number_map:
    return write_number_map(out, row);
  case field_type::other: // its schema is written as a part
    out.key("allOf").begin_array().raw(row.schema).end_array();
    return;
  }
}

/// The sentences of the documentation, which has links: "[auto.md](auto.md)" becomes "docs/auto.md".
std::string without_links(std::string_view doc) {
  std::string out;
  while (true) {
    const auto begin = doc.find('[');
    const auto middle = begin == std::string_view::npos ? begin : doc.find("](", begin);
    const auto end = middle == std::string_view::npos ? middle : doc.find(')', middle);
    if (end == std::string_view::npos) return out.append(doc);
    out.append(doc.substr(0, begin)).append("docs/").append(doc.substr(middle + 2, end - middle - 2));
    doc.remove_prefix(end + 1);
  }
}

void write_field(json_writer& out, const field_spec& row, request_kinds kind) {
  out.begin_object();
  switch (row.state) {
  case field_state::supported:
    out.field("description", without_links(row.doc));
    write_value(out, row, kind);
    if (is_json(row.initial)) out.key("default").raw(row.initial);
    break;
  case field_state::without_effect:
    out.field("description", std::string("Has no effect: ").append(row.doc).append("."));
    break;
  case field_state::refused:
    out.field("description", std::string("Not offered: ").append(row.doc).append("."));
    write_neutral(out, row.neutral);
    break;
  }
  out.end_object();
}

/// Writes that the object has the field and that it is not null.
void write_presence(json_writer& out, std::string_view name) {
  out.begin_object().key("required").begin_array().value(name).end_array().key("properties").begin_object();
  out.key(name).begin_object().key("not").begin_object().field("type", "null").end_object().end_object();
  out.end_object().end_object();
}

/// "properties", "required" and "additionalProperties" of the object at `path`.
void write_members(json_writer& out, request_kinds kind, std::string_view path, bool is_closed) {
  const auto for_each = [&](const auto& write) {
    for (const auto& group : field_groups)
      for (const auto& row : group.rows)
        if ((row.where & kind) != 0 && row.object == path) write(row);
  };
  bool any_required = false;
  out.key("properties").begin_object();
  for_each([&](const field_spec& row) {
    any_required = any_required || row.required;
    write_field(out.key(row.name), row, kind);
  });
  out.end_object();
  if (any_required) {
    out.key("required").begin_array();
    for_each([&](const field_spec& row) {
      if (row.required) out.value(row.name);
    });
    out.end_array();
  }
  for_each([&](const field_spec& row) { // an object has only one such row
    if (row.unless.empty()) return;
    out.key("anyOf").begin_array();
    write_presence(out, row.name);
    write_presence(out, row.unless);
    out.end_array();
  });
  out.field("additionalProperties", !is_closed);
}

} // namespace

void write_request_schema(json_writer& out, request_kinds kind) {
  out.begin_object().field("type", "object");
  write_members(out, kind, "", false);
  out.end_object();
}

void write_token_id_schema(json_writer& out) {
  out.begin_object().field("type", "integer").field("minimum", 0).field("maximum", max_int32).end_object();
}

} // namespace paceline::wire
