// What a conjunction of schemas says about a value.
#include "runtime/grammar/regex_syntax.hpp"
#include "runtime/grammar/schema_algebra.hpp"
#include "runtime/grammar/schema_keywords.hpp"

#include <algorithm>
#include <cmath>

namespace paceline::grammar {

namespace {

namespace json = boost::json;

constexpr double max_count = 1e9;

type_set types_in(const json::value& type) {
  if (const auto* name = type.if_string()) return type_named(*name).value_or(0);
  type_set types = 0;
  for (const auto& name : type.get_array()) types |= type_named(name.get_string()).value_or(0);
  return types;
}

double scale_of(const decimal_bound& bound) {
  return static_cast<double>(bound.scaled) / std::pow(10.0, bound.num_decimals);
}

bool is_narrower(const decimal_bound& a, const std::optional<decimal_bound>& b, bool is_min) {
  if (!b) return true;
  if (scale_of(a) == scale_of(*b)) return a.is_exclusive;
  return is_min ? scale_of(a) > scale_of(*b) : scale_of(a) < scale_of(*b);
}

} // namespace

type_set types_of(const conjunction& schemas) {
  type_set types = all_types;
  for (const auto& [schema, parent] : schemas) {
    if (const auto* type = member(schema, "type")) types &= types_in(*type);
    if (const auto* own = member(schema, types_keyword))
      types &= static_cast<type_set>(own->to_number<int>());
    type_set listed = 0;
    if (const auto* only = member(schema, "const")) types &= type_of(*only);
    if (const auto* values = member(schema, "enum")) {
      for (const auto& value : values->get_array()) listed |= type_of(value);
      types &= listed;
    }
  }
  return types;
}

number_bounds bounds_of(const conjunction& schemas) {
  number_bounds out;
  for (const auto& [schema, parent] : schemas)
    for (const std::string_view keyword : {"minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum"}) {
      const auto* value = member(schema, keyword);
      if (value == nullptr) continue;
      const bool is_min = keyword.ends_with("inimum");
      const auto bound = to_bound(*value, keyword.starts_with("exclusive"));
      auto& narrowest = is_min ? out.min : out.max;
      if (!bound)
        out.is_exact = false;
      else if (is_narrower(*bound, narrowest, is_min))
        narrowest = bound;
    }
  return out;
}

std::optional<std::uint32_t> largest(const conjunction& schemas, std::string_view keyword) {
  std::optional<std::uint32_t> out;
  for (const auto& [schema, parent] : schemas)
    if (const auto* value = member(schema, keyword))
      out = std::max(out.value_or(0),
                     static_cast<std::uint32_t>(std::min(value->to_number<double>(), max_count)));
  return out;
}

std::optional<std::uint32_t> smallest(const conjunction& schemas, std::string_view keyword) {
  std::optional<std::uint32_t> out;
  for (const auto& [schema, parent] : schemas)
    if (const auto* value = member(schema, keyword)) {
      const auto count = static_cast<std::uint32_t>(std::min(value->to_number<double>(), max_count));
      out = std::min(out.value_or(count), count);
    }
  return out;
}

bool includes(const conjunction& schemas, std::size_t above, std::size_t below) {
  for (auto at = static_cast<std::ptrdiff_t>(below); at >= 0;
       at = schemas[static_cast<std::size_t>(at)].parent)
    if (at == static_cast<std::ptrdiff_t>(above)) return true;
  return false;
}

bool schema_algebra::is_required(const conjunction& schemas, std::string_view key) const {
  return std::any_of(schemas.begin(), schemas.end(), [&](const conjunct& c) {
    const auto* required = member(c.schema, "required");
    return required != nullptr && std::any_of(required->get_array().begin(), required->get_array().end(),
                                              [&](const auto& name) { return name.get_string() == key; });
  });
}

std::vector<schema_ptr> schema_algebra::member_schemas(const conjunction& schemas, std::string_view key) {
  std::vector<schema_ptr> out;
  std::vector<bool> is_evaluated(schemas.size(), false);
  for (std::size_t i = 0; i < schemas.size(); ++i) {
    const schema_ptr schema = schemas[i].schema;
    if (const auto* properties = member(schema, "properties"))
      if (const auto* own = properties->get_object().if_contains(key))
        out.push_back(own), is_evaluated[i] = true;
    if (const auto* patterns = member(schema, "patternProperties"))
      for (const auto& entry : patterns->get_object()) {
        const auto regex = parse_regex({entry.key().data(), entry.key().size()});
        if (!regex)
          refuse(regex.error().code(), schema, "patternProperties", regex.error().message());
        else if (matches(*regex, key))
          out.push_back(&entry.value()), is_evaluated[i] = true;
      }
    const auto* others = member(schema, "additionalProperties");
    if (others != nullptr && !is_evaluated[i]) out.push_back(others);
    is_evaluated[i] = is_evaluated[i] || others != nullptr;
    if (const auto* names = member(schema, "propertyNames")) {
      const auto valid = is_valid(json::string(key), names);
      if (!valid)
        refuse(errc::unsupported, schema, "propertyNames",
               "this keyword is not supported beside 'properties'");
      else if (!*valid)
        out.push_back(document_.add(false, schema));
    }
  }
  for (std::size_t i = 0; i < schemas.size(); ++i) {
    const auto* rest = member(schemas[i].schema, "unevaluatedProperties");
    if (rest == nullptr) continue;
    bool is_seen = false;
    for (std::size_t k = 0; k < schemas.size(); ++k) {
      const bool evaluates =
          is_evaluated[k] || (k != i && member(schemas[k].schema, "unevaluatedProperties") != nullptr);
      is_seen = is_seen || (evaluates && includes(schemas, i, k));
    }
    if (!is_seen) out.push_back(rest);
  }
  return out;
}

std::vector<schema_ptr> schema_algebra::other_member_schemas(const conjunction& schemas) {
  std::vector<schema_ptr> out;
  for (std::size_t i = 0; i < schemas.size(); ++i) {
    if (const auto* others = member(schemas[i].schema, "additionalProperties")) out.push_back(others);
    const auto* rest = member(schemas[i].schema, "unevaluatedProperties");
    if (rest == nullptr) continue;
    bool is_seen = false;
    for (std::size_t k = 0; k < schemas.size(); ++k) {
      const bool evaluates = member(schemas[k].schema, "additionalProperties") != nullptr ||
                             (k != i && member(schemas[k].schema, "unevaluatedProperties") != nullptr);
      is_seen = is_seen || (evaluates && includes(schemas, i, k));
    }
    if (!is_seen) out.push_back(rest);
  }
  return out;
}

} // namespace paceline::grammar
