#include "protocol/wire/output/call_schema.hpp"

#include "protocol/wire/json_view.hpp"
#include "protocol/wire/json_writer.hpp"

#include <cstddef>
#include <optional>

namespace paceline::wire {

namespace {

/// Makes a schema a separate resource, so that its references refer to places in it wherever it is inserted.
std::string as_resource(const std::string& schema, std::size_t number) {
  const bool may_refer = schema.find("\"$") != std::string::npos;
  if (!may_refer || !json_view(schema).is_object() || member_of(json_view(schema), "$id")) return schema;
  return R"({"$id":"schema:///tools/)" + std::to_string(number) + "/\"," +
         schema.substr(schema.find('{') + 1);
}

/// `type`: the value of the keyword.
bool is_list_with_object(json_view type) {
  for (const auto name : type.elements())
    if (name.is_string("object")) return true;
  return false;
}

/// The schema with "type": "object" if it states no type, or also allows other types. Arguments are an
/// object.
std::string of_objects(json_view schema) {
  if (!schema.is_object()) return R"({"type":"object"})";
  std::string text(schema.source());
  if (const auto type = member_of(schema, "type")) {
    const auto place = static_cast<std::size_t>(type->source().data() - schema.source().data());
    return is_list_with_object(*type) ? text.replace(place, type->source().size(), R"("object")") : text;
  }
  return R"({"type":"object")" + std::string(schema.members().empty() ? "" : ",") +
         text.substr(text.find('{') + 1);
}

} // namespace

std::vector<function_schema> callable_functions(const std::string& tools, const std::string& name,
                                                bool exact) {
  std::vector<function_schema> out;
  for (const auto tool : json_view(tools).elements()) {
    const auto function = member_of(tool, "function");
    const auto own_name = function ? member_of(*function, "name") : std::nullopt;
    if (!own_name || (!name.empty() && !own_name->is_string(name))) continue;
    const auto strict = member_of(*function, "strict");
    const auto schema = member_of(*function, "parameters");
    const bool matches = schema && (exact || (strict && strict->boolean() == true));
    out.push_back({own_name->string().value_or(""), matches ? of_objects(*schema) : R"({"type":"object"})"});
  }
  return out;
}

std::string call_schema(const std::vector<function_schema>& functions) {
  json_writer out;
  std::size_t number = 0;
  out.begin_object().key("anyOf").begin_array();
  for (const auto& one : functions) {
    out.begin_object().field("type", "object").key("properties").begin_object();
    out.key("name").begin_object().field("const", one.name).end_object();
    out.key("arguments").raw(as_resource(one.arguments, number++)).end_object();
    out.key("required").begin_array().value("name").value("arguments").end_array();
    out.field("additionalProperties", false).end_object();
  }
  return out.end_array().end_object().take();
}

} // namespace paceline::wire
