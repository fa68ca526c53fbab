#include "runtime/grammar/schema_algebra.hpp"
#include "runtime/grammar/schema_keywords.hpp"

#include <set>
#include <string>
#include <utility>

namespace paceline::grammar {

namespace {

namespace json = boost::json;

constexpr std::size_t max_depth = 8;
constexpr std::size_t max_results = 32;

/// The schema that holds where the one keyword does not, for keywords that limit a number or a count.
std::optional<json::object> opposite(std::string_view keyword, const json::value& value) {
  const auto with = [](const char* type, const char* key, json::value v) {
    return json::object{{"type", type}, {key, std::move(v)}};
  };
  if (keyword == "minimum") return with("number", "exclusiveMaximum", value);
  if (keyword == "maximum") return with("number", "exclusiveMinimum", value);
  if (keyword == "exclusiveMinimum") return with("number", "maximum", value);
  if (keyword == "exclusiveMaximum") return with("number", "minimum", value);
  struct pair {
    const char* min;
    const char* max;
    const char* type;
  };
  for (const pair& names : {pair{"minLength", "maxLength", "string"}, pair{"minItems", "maxItems", "array"},
                            pair{"minProperties", "maxProperties", "object"}}) {
    if (keyword == names.max) return with(names.type, names.min, value.to_number<double>() + 1);
    if (keyword != names.min) continue;
    if (value.to_number<double>() <= 0) return json::object{{types_keyword, 0}};
    return with(names.type, names.max, value.to_number<double>() - 1);
  }
  return std::nullopt;
}

bool is_annotation(std::string_view keyword) {
  static const std::set<std::string_view> names{"title",
                                                "description",
                                                "default",
                                                "examples",
                                                "deprecated",
                                                "readOnly",
                                                "writeOnly",
                                                "$schema",
                                                "$comment",
                                                "$defs",
                                                "$id",
                                                "$anchor",
                                                "$vocabulary",
                                                "$dynamicAnchor",
                                                "definitions",
                                                "contentEncoding",
                                                "contentMediaType",
                                                "contentSchema"};
  return names.contains(keyword);
}

} // namespace

std::optional<std::vector<schema_ptr>> schema_algebra::negation(schema_ptr schema, std::size_t depth) {
  using list = std::vector<schema_ptr>;
  if (const auto* flag = schema->if_bool()) return *flag ? list{} : list{document_.add(true, schema)};
  if (!schema->is_object() || depth > max_depth || !spend(1, schema)) return std::nullopt;
  if (auto checked = check_keywords(document_, schema); !checked) {
    fail(checked.error());
    return std::nullopt;
  }
  list out;
  const auto put = [&](json::object value) { out.push_back(document_.add(std::move(value), schema)); };
  const auto put_negation = [&](schema_ptr inner, const auto& wrapped) {
    const auto others = negation(inner, depth + 1);
    if (!others) return false;
    for (schema_ptr other : *others) wrapped(other);
    return true;
  };
  const auto put_as_is = [&](schema_ptr other) { out.push_back(other); };
  for (const auto& entry : schema->get_object()) {
    const std::string_view name(entry.key().data(), entry.key().size());
    const auto& value = entry.value();
    bool is_done = true;
    if (is_annotation(name)) continue;
    if (name == "type" || name == types_keyword) {
      put({{types_keyword, static_cast<int>(all_types & ~types_of({{schema, -1}}))}});
      // Without this the complement of "const" and "enum" would be taken for one of types.
      if (schema->get_object().contains("const") || schema->get_object().contains("enum"))
        return std::nullopt;
    } else if (name == "const") {
      put({{not_in_keyword, json::array{value}}});
    } else if (name == "enum") {
      put({{not_in_keyword, value}});
    } else if (name == "required") {
      for (const auto& key : value.get_array())
        put({{"type", "object"}, {"properties", {{key.get_string(), false}}}});
    } else if (name == "properties") {
      for (const auto& property : value.get_object())
        is_done = is_done && put_negation(&property.value(), [&](schema_ptr other) {
                    put({{"type", "object"},
                         {"required", json::array{property.key()}},
                         {"properties", {{property.key(), *other}}}});
                  });
    } else if (name == "not") {
      out.push_back(&value);
    } else if (name == "allOf") {
      for (const auto& inner : value.get_array()) is_done = is_done && put_negation(&inner, put_as_is);
    } else if (name == "anyOf") {
      json::array all;
      for (const auto& inner : value.get_array()) {
        json::array any;
        is_done = is_done && put_negation(&inner, [&](schema_ptr other) { any.push_back(*other); });
        all.push_back(any.empty() ? json::value(false)
                                  : json::value(json::object{{"anyOf", std::move(any)}}));
      }
      put({{"allOf", std::move(all)}});
    } else if (name == "$ref") {
      const auto target = document_.resolve(schema, value.get_string());
      is_done = target && put_negation(*target, put_as_is);
    } else if (auto other = opposite(name, value)) {
      put(std::move(*other));
    } else {
      return std::nullopt;
    }
    if (!is_done || out.size() > max_results) return std::nullopt;
  }
  return out;
}

} // namespace paceline::grammar
