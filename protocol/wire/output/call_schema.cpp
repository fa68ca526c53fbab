#include "protocol/wire/output/call_schema.hpp"

#include "protocol/wire/json_view.hpp"
#include "protocol/wire/json_writer.hpp"

#include <optional>

namespace paceline::wire {

std::string call_schema(const std::string& tools, const std::string& name, bool exact) {
  json_writer out;
  out.begin_object().key("anyOf").begin_array();
  for (const auto tool : json_view(tools).elements()) {
    const auto function = member_of(tool, "function");
    if (!function) continue;
    const auto own_name = member_of(*function, "name");
    if (!own_name || (!name.empty() && !own_name->is_string(name))) continue;
    const auto strict = member_of(*function, "strict");
    const auto schema = member_of(*function, "parameters");
    const bool matches = schema && (exact || (strict && strict->boolean() == true));
    out.begin_object().field("type", "object").key("properties").begin_object();
    out.key("name").begin_object().key("const").raw(own_name->source()).end_object();
    out.key("arguments").raw(matches ? schema->source() : R"({"type":"object"})").end_object();
    out.key("required").begin_array().value("name").value("arguments").end_array();
    out.field("additionalProperties", false).end_object();
  }
  return out.end_array().end_object().take();
}

} // namespace paceline::wire
