#include "runtime/grammar/schema_algebra.hpp"
#include "runtime/grammar/schema_keywords.hpp"

#include <string>
#include <utility>

namespace paceline::grammar {

namespace {

namespace json = boost::json;

constexpr std::size_t max_negation_depth = 8;
constexpr std::size_t max_results = 32;
constexpr std::size_t max_negated_one_of = 8;

/// The schema that holds if and only if this one keyword does not hold, for keywords that limit a number or a
/// count.
std::optional<json::object> opposite_limit(std::string_view keyword, const json::value& value) {
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

/// True for keywords that allow everything, and for those that are handled together with another keyword.
bool is_ignored(std::string_view keyword) {
  return !is_enforced(keyword) || keyword == "then" || keyword == "else";
}

} // namespace

json::object schema_algebra::here(schema_ptr schema) { return {{here_keyword, document_.handle_of(schema)}}; }

json::value schema_algebra::any_of(const schema_list& schemas) {
  if (schemas.empty()) return false;
  if (schemas.size() == 1) return here(schemas.front());
  json::array any;
  for (schema_ptr one : schemas) any.push_back(here(one));
  return json::object{{"anyOf", std::move(any)}};
}

std::optional<json::value> schema_algebra::inverse(schema_ptr schema, std::size_t depth) {
  const auto& others = negation(schema, depth + 1);
  return others ? std::optional(any_of(*others)) : std::nullopt;
}

schema_ptr schema_algebra::opposite_of(schema_ptr schema) {
  const auto known = opposites_.find(schema);
  if (known != opposites_.end()) return known->second;
  auto rest = inverse(schema, 0);
  return opposites_.emplace(schema, rest ? keep(std::move(*rest), schema) : nullptr).first->second;
}

bool schema_algebra::negate_members(schema_ptr schema, std::string_view name, const json::value& value,
                                    std::size_t depth, schema_list& out) {
  const auto put = [&](json::object one) { out.push_back(keep(std::move(one), schema)); };
  const auto with = [](const json::string& key) {
    return json::object{{"type", "object"}, {"required", json::array{key}}};
  };
  if (name == "required") {
    for (const auto& key : value.get_array()) {
      if (out.size() > max_results) return false;
      put({{"type", "object"}, {"properties", {{key.get_string(), false}}}});
    }
    return true;
  }
  for (const auto& entry : value.get_object()) {
    const json::string key(entry.key());
    if (name == "dependentRequired") {
      for (const auto& other : entry.value().get_array()) {
        if (out.size() > max_results) return false;
        auto one = with(key);
        one["properties"] = json::object{{other.get_string(), false}};
        put(std::move(one));
      }
      continue;
    }
    auto rest = inverse(&entry.value(), depth);
    if (!rest || out.size() > max_results) return false;
    if (rest->is_bool() && !rest->get_bool()) continue; // no value breaks it
    auto one = with(key);
    if (name == "properties")
      one["properties"] = json::object{{key, std::move(*rest)}};
    else
      one["allOf"] = json::array{std::move(*rest)};
    put(std::move(one));
  }
  return true;
}

bool schema_algebra::negate_items(schema_ptr schema, std::string_view name, const json::value& value,
                                  std::size_t depth, schema_list& out) {
  const auto put = [&](json::object one) { out.push_back(keep(std::move(one), schema)); };
  const auto& keywords = schema->get_object();
  if (name == "prefixItems") {
    json::array before;
    for (const auto& item : value.get_array()) {
      auto rest = inverse(&item, depth);
      if (!rest) return false;
      json::array items = before;
      items.push_back(std::move(*rest));
      put({{"type", "array"}, {"minItems", items.size()}, {"prefixItems", std::move(items)}});
      before.push_back(true);
      if (before.size() > max_results) return false;
    }
    return true;
  }
  const bool is_contains = name == "contains";
  if (is_contains ? keywords.contains("minContains") || keywords.contains("maxContains")
                  : keywords.contains("prefixItems"))
    return false;
  auto rest = inverse(&value, depth);
  if (rest) put({{"type", "array"}, {is_contains ? "items" : "contains", std::move(*rest)}});
  return rest.has_value();
}

bool schema_algebra::negate_combination(schema_ptr schema, std::string_view name, const json::value& value,
                                        std::size_t depth, schema_list& out) {
  const auto put = [&](json::array all) {
    out.push_back(keep(json::object{{"allOf", std::move(all)}}, schema));
  };
  if (name == "if") {
    for (const bool holds : {true, false}) {
      const auto* next = member(schema, holds ? "then" : "else");
      if (next == nullptr) continue;
      const auto rest = inverse(next, depth);
      const auto test = holds ? std::optional<json::value>(here(&value)) : inverse(&value, depth);
      if (!rest || !test) return false;
      put({*test, *rest});
    }
    return true;
  }
  const auto& branches = value.get_array();
  if (name == "allOf") {
    for (const auto& inner : branches) {
      const auto& others = negation(&inner, depth + 1);
      if (!others || out.size() > max_results) return false;
      out.insert(out.end(), others->begin(), others->end());
    }
    return true;
  }
  json::array none;
  for (const auto& inner : branches) {
    auto rest = inverse(&inner, depth);
    if (!rest) return false;
    none.push_back(std::move(*rest));
  }
  put(std::move(none));
  if (name == "anyOf") return true;
  if (branches.size() > max_negated_one_of) return false;
  for (std::size_t i = 0; i < branches.size(); ++i)
    for (std::size_t k = i + 1; k < branches.size(); ++k) put({here(&branches[i]), here(&branches[k])});
  return true;
}

/// Adds the schemas of the values that break one keyword. Returns false if this keyword cannot be negated.
bool schema_algebra::negate_keyword(schema_ptr schema, std::string_view name, const json::value& value,
                                    std::size_t depth, schema_list& out) {
  const auto put = [&](json::object one) { out.push_back(keep(std::move(one), schema)); };
  if (name == "type" || name == types_keyword) {
    const auto types = name == "type" ? types_in(value) : static_cast<type_set>(value.to_number<int>());
    put({{types_keyword, static_cast<int>(all_types & ~types)}});
  } else if (name == "const") {
    put({{not_value_keyword, document_.handle_of(&value)}});
  } else if (name == "enum") {
    put({{not_in_keyword, document_.handle_of(&value)}});
  } else if (name == "pattern") {
    put({{"type", "string"}, {not_pattern_keyword, document_.handle_of(&value)}});
  } else if (name == "required" || name == "properties" || name == "dependentRequired" ||
             name == "dependentSchemas") {
    return negate_members(schema, name, value, depth, out);
  } else if (name == "items" || name == "contains" || name == "prefixItems") {
    return negate_items(schema, name, value, depth, out);
  } else if (name == "allOf" || name == "anyOf" || name == "oneOf" || name == "if") {
    return negate_combination(schema, name, value, depth, out);
  } else if (name == "format") {
    return !has_enforced_format(schema);
  } else if (name == "not") {
    out.push_back(&value);
  } else if (name == "$ref" || name == "$dynamicRef" || name == here_keyword) {
    const auto target = referred(schema, name);
    if (target == nullptr) return false;
    const auto& others = negation(target, depth + 1);
    if (!others) return false;
    out.insert(out.end(), others->begin(), others->end());
  } else if (auto other = opposite_limit(name, value)) {
    put(std::move(*other));
  } else {
    return is_ignored(name);
  }
  return true;
}

const std::optional<schema_algebra::schema_list>& schema_algebra::negation(schema_ptr schema,
                                                                           std::size_t depth) {
  const std::pair key(schema, depth);
  const auto known = negations_.find(key);
  if (known != negations_.end()) return known->second;
  return negations_.emplace(key, make_negation(schema, depth)).first->second;
}

std::optional<schema_algebra::schema_list> schema_algebra::make_negation(schema_ptr schema,
                                                                         std::size_t depth) {
  if (const auto* flag = schema->if_bool()) return *flag ? schema_list{} : schema_list{keep(true, schema)};
  if (!schema->is_object() || depth > max_negation_depth || !spend(1, schema) || !check(schema))
    return std::nullopt;
  schema_list out;
  for (const auto& entry : schema->get_object()) {
    const std::string_view name(entry.key().data(), entry.key().size());
    if (!negate_keyword(schema, name, entry.value(), depth, out) || out.size() > max_results)
      return std::nullopt;
  }
  return out;
}

} // namespace paceline::grammar
