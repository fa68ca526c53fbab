#include "runtime/grammar/schema_keywords.hpp"

#include "runtime/grammar/schema_types.hpp"

#include <algorithm>
#include <string>
#include <unordered_map>

namespace paceline::grammar {

namespace {

namespace json = boost::json;

enum class form {
  schema,
  schemas,
  schema_map,
  count,
  number,
  text,
  texts,
  values,
  type,
  flag,
  text_lists,
  format,
  refused
};

const std::unordered_map<std::string_view, form>& forms() {
  static const std::unordered_map<std::string_view, form> table{
      {"$ref", form::text},
      {"$dynamicRef", form::text},
      {"allOf", form::schemas},
      {"anyOf", form::schemas},
      {"oneOf", form::schemas},
      {"prefixItems", form::schemas},
      {"not", form::schema},
      {"if", form::schema},
      {"then", form::schema},
      {"else", form::schema},
      {"items", form::schema},
      {"contains", form::schema},
      {"unevaluatedItems", form::schema},
      {"additionalProperties", form::schema},
      {"unevaluatedProperties", form::schema},
      {"propertyNames", form::schema},
      {"properties", form::schema_map},
      {"patternProperties", form::schema_map},
      {"dependentSchemas", form::schema_map},
      {"dependentRequired", form::text_lists},
      {"required", form::texts},
      {"enum", form::values},
      {"type", form::type},
      {"format", form::format},
      {"pattern", form::text},
      {"minLength", form::count},
      {"maxLength", form::count},
      {"minItems", form::count},
      {"maxItems", form::count},
      {"minContains", form::count},
      {"maxContains", form::count},
      {"minProperties", form::count},
      {"maxProperties", form::count},
      {"minimum", form::number},
      {"maximum", form::number},
      {"exclusiveMinimum", form::number},
      {"exclusiveMaximum", form::number},
      {"multipleOf", form::number},
      {"uniqueItems", form::flag},
      // Keywords of other drafts. They are refused, because their meaning would be lost.
      {"$recursiveRef", form::refused},
      {"additionalItems", form::refused},
      {"dependencies", form::refused},
      {"disallow", form::refused},
      {"divisibleBy", form::refused},
      {"extends", form::refused},
  };
  return table;
}

bool is_schema(const json::value& value) { return value.is_object() || value.is_bool(); }
bool are_texts(const json::value& value) {
  const auto* array = value.if_array();
  return array != nullptr &&
         std::all_of(array->begin(), array->end(), [](const auto& v) { return v.is_string(); });
}
bool is_type(const json::value& value) {
  if (const auto* name = value.if_string()) return type_named(*name).has_value();
  return are_texts(value) && !value.get_array().empty() &&
         std::all_of(value.get_array().begin(), value.get_array().end(),
                     [](const auto& name) { return type_named(name.get_string()).has_value(); });
}

/// Returns "" if `value` has the form, otherwise the rule that it breaks.
std::string_view broken_rule(form wanted, const json::value& value) {
  const auto* array = value.if_array();
  const auto* object = value.if_object();
  switch (wanted) {
  case form::schema:
    return is_schema(value) ? "" : "must be a schema: an object or a boolean";
  case form::schemas:
    return array != nullptr && !array->empty() && std::all_of(array->begin(), array->end(), is_schema)
               ? ""
               : "must be an array of schemas that is not empty";
  case form::schema_map:
    return object != nullptr && std::all_of(object->begin(), object->end(),
                                            [](const auto& m) { return is_schema(m.value()); })
               ? ""
               : "must be an object of schemas";
  case form::count:
    return type_of(value) == integer_type && value.to_number<double>() >= 0
               ? ""
               : "must be a whole number from 0 on";
  case form::number:
    return value.is_number() ? "" : "must be a number";
  case form::format:
  case form::text:
    return value.is_string() ? "" : "must be a string";
  case form::texts:
    return are_texts(value) ? "" : "must be an array of strings";
  case form::values:
    return array != nullptr ? "" : "must be an array";
  case form::type:
    return is_type(value) ? "" : "must be the name of a type, or an array of names";
  case form::flag:
    return value.is_bool() ? "" : "must be true or false";
  case form::text_lists:
    return object != nullptr && std::all_of(object->begin(), object->end(),
                                            [](const auto& m) { return are_texts(m.value()); })
               ? ""
               : "must be an object of arrays of strings";
  case form::refused:
    return "";
  }
  return "";
}

} // namespace

bool is_enforced(std::string_view keyword) {
  return forms().contains(keyword) || keyword.starts_with('\x01');
}

bool has_enforced_format(schema_ptr schema) {
  const auto& keywords = schema->get_object();
  const auto* format = keywords.if_contains("format");
  if (format == nullptr || !format->is_string() || is_annotation(view(format->get_string()))) return false;
  const auto* type = keywords.if_contains("type");
  return type == nullptr || !is_type(*type) || (types_in(*type) & string_type) != 0;
}

expected<void> check_keywords(const schema_document& document, schema_ptr schema) {
  for (const auto& member : schema->get_object()) {
    const std::string_view name(member.key().data(), member.key().size());
    const auto found = forms().find(name);
    if (found == forms().end()) continue;
    if (found->second == form::refused)
      return document.refusal(errc::unsupported, schema, name, "this keyword is not supported");
    if (const auto rule = broken_rule(found->second, member.value()); !rule.empty())
      return document.refusal(errc::invalid_argument, schema, name, rule);
    if (name == "multipleOf" && member.value().to_number<double>() <= 0)
      return document.refusal(errc::invalid_argument, schema, name, "must be above 0");
    if (found->second == form::format && has_enforced_format(schema) &&
        format_named(member.value().get_string()) == nullptr)
      return document.refusal(errc::unsupported, schema, name,
                              "the format '" + std::string(member.value().get_string().subview(0, 100)) +
                                  "' is not supported");
  }
  return {};
}

} // namespace paceline::grammar
