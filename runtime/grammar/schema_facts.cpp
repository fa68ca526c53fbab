#include "runtime/grammar/schema_facts.hpp"

#include "runtime/grammar/schema_algebra.hpp"
#include "runtime/grammar/schema_keywords.hpp"

#include <algorithm>

namespace paceline::grammar {

namespace {

namespace json = boost::json;

constexpr double max_exact_count = 1e9;

bool is_narrower(const decimal_bound& a, const std::optional<decimal_bound>& b, bool is_min) {
  if (!b) return true;
  if (is_less(a, *b)) return !is_min;
  return is_less(*b, a) ? is_min : a.is_exclusive;
}

bool is_lower(std::string_view keyword) { return keyword.ends_with("inimum"); }

} // namespace

type_set schema_facts::types_of(schema_ptr schema) {
  const auto [found, is_new] = types_.emplace(schema, all_types);
  type_set& types = found->second;
  if (!is_new) return types;
  if (const auto* type = member(schema, "type")) types &= types_in(*type);
  if (const auto* own = member(schema, types_keyword)) types &= static_cast<type_set>(own->to_number<int>());
  if (const auto* only = member(schema, "const")) types &= type_of(*only);
  if (const auto* values = member(schema, "enum")) {
    type_set listed = 0;
    num_read_ += values->get_array().size();
    for (const auto& value : values->get_array()) listed |= type_of(value);
    types &= listed;
  }
  return types;
}

type_set schema_facts::types_of(const conjunction& schemas) {
  type_set types = all_types;
  for (const auto& [schema, parent] : schemas) types &= types_of(schema);
  return types;
}

bool schema_facts::is_required(schema_ptr schema, std::string_view key) {
  const auto* required = member(schema, "required");
  if (required == nullptr) return false;
  const auto [found, is_new] = required_.try_emplace(schema);
  if (is_new)
    for (const auto& name : required->get_array())
      ++num_read_, found->second.emplace(name.get_string().data(), name.get_string().size());
  return found->second.contains(key);
}

std::size_t schema_facts::width(schema_ptr schema) {
  const auto [found, is_new] = widths_.emplace(schema, 0);
  if (!is_new) return found->second;
  for (const std::string_view keyword : {"required", "dependentRequired"})
    if (const auto* listed = member(schema, keyword)) found->second += size_of(*listed);
  for (const std::string_view keyword : {"patternProperties", "dependentSchemas"})
    if (const auto* listed = member(schema, keyword)) found->second += listed->get_object().size();
  return found->second;
}

bool schema_facts::lists(const json::value& array, const std::string& value) {
  const auto [found, is_new] = listed_.try_emplace(&array);
  if (is_new)
    for (const auto& one : array.get_array()) ++num_read_, found->second.insert(canonical_text(one));
  return found->second.contains(value);
}

const std::string& schema_facts::text(const json::value& value) {
  const auto [found, is_new] = texts_.try_emplace(&value);
  if (is_new) found->second = canonical_text(value);
  return found->second;
}

const expected<regex_node>& schema_facts::regex(std::string_view pattern) {
  const auto found = regexes_.find(pattern);
  if (found != regexes_.end()) return found->second;
  return regexes_.emplace(std::string(pattern), parse_regex(pattern)).first->second;
}

std::optional<bool> schema_facts::matches(std::string_view pattern, std::string_view text) {
  constexpr std::size_t max_states = 256;
  auto found = automata_.find(pattern);
  if (found == automata_.end()) {
    const auto& parsed = regex(pattern);
    std::optional<text_automaton> made;
    if (parsed)
      made = text_automaton::make(
          {{.regex = &*parsed}}, [](std::uint64_t obeyed) { return obeyed == 1; }, max_states,
          automaton_work_);
    found = automata_.emplace(std::string(pattern), std::move(made)).first;
  }
  return found->second ? std::optional(found->second->accepts(text)) : std::nullopt;
}

std::optional<decimal_bound> bound_of(const json::value& value, std::string_view keyword) {
  if (const auto exact = to_bound(value, keyword.starts_with("exclusive"))) return exact;
  constexpr double two_to_64 = 18446744073709551616.0;
  const auto number = value.to_number<double>();
  if (is_lower(keyword) ? number > -two_to_64 : number < two_to_64) return std::nullopt;
  constexpr scaled_int largest_bound = max_whole_bound;
  return decimal_bound{is_lower(keyword) ? -largest_bound : largest_bound, 0, false};
}

number_bounds bounds_of(const conjunction& schemas) {
  number_bounds out;
  for (const auto& [schema, parent] : schemas)
    for (const std::string_view keyword : {"minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum"}) {
      const auto* value = member(schema, keyword);
      if (value == nullptr) continue;
      const auto bound = bound_of(*value, keyword);
      if (!to_bound(*value, false)) out.is_exact = false;
      auto& narrowest = is_lower(keyword) ? out.min : out.max;
      if (bound && is_narrower(*bound, narrowest, is_lower(keyword))) narrowest = bound;
    }
  return out;
}

std::optional<std::uint32_t> largest(const conjunction& schemas, std::string_view keyword) {
  std::optional<std::uint32_t> out;
  for (const auto& [schema, parent] : schemas)
    if (const auto* value = member(schema, keyword))
      out = std::max(out.value_or(0),
                     static_cast<std::uint32_t>(std::min(value->to_number<double>(), max_exact_count)));
  return out;
}

std::optional<std::uint32_t> smallest(const conjunction& schemas, std::string_view keyword) {
  std::optional<std::uint32_t> out;
  for (const auto& [schema, parent] : schemas)
    if (const auto* value = member(schema, keyword)) {
      const auto count = static_cast<std::uint32_t>(std::min(value->to_number<double>(), max_exact_count));
      out = std::min(out.value_or(count), count);
    }
  return out;
}

std::vector<schema_ptr> unevaluated(const conjunction& schemas, std::string_view keyword,
                                    const std::vector<bool>& is_evaluated) {
  std::vector<schema_ptr> out;
  std::vector<std::size_t> holders;
  for (std::size_t i = 0; i < schemas.size(); ++i)
    if (member(schemas[i].schema, keyword) != nullptr) holders.push_back(i);
  if (holders.empty()) return out;
  // Determines whether a schema, or one that it includes, evaluates the member. An including schema precedes
  // the schemas that it includes.
  std::vector<bool> sees = is_evaluated;
  for (const std::size_t i : holders) sees[i] = true;
  std::vector<bool> sees_below(schemas.size(), false);
  for (std::size_t i = schemas.size(); i-- > 0;) {
    const auto parent = schemas[i].parent;
    if (parent >= 0 && (sees[i] || sees_below[i])) sees_below[static_cast<std::size_t>(parent)] = true;
  }
  for (const std::size_t i : holders)
    if (!is_evaluated[i] && !sees_below[i]) out.push_back(member(schemas[i].schema, keyword));
  return out;
}

bool schema_algebra::is_required(const conjunction& schemas, std::string_view key) {
  return std::any_of(schemas.begin(), schemas.end(),
                     [&](const conjunct& c) { return facts_.is_required(c.schema, key); });
}

std::optional<bool> schema_algebra::matches_pattern(std::string_view pattern, std::string_view text,
                                                    schema_ptr where) {
  constexpr std::size_t steps_per_spent = 64;
  if (!spend(1 + text.size() / steps_per_spent, where)) return std::nullopt;
  return facts_.matches(pattern, text);
}

std::vector<schema_ptr> schema_algebra::member_schemas(const conjunction& schemas, std::string_view key) {
  std::vector<schema_ptr> out;
  std::vector<bool> is_evaluated(schemas.size(), false);
  constexpr std::size_t bytes_per_spent = 64;
  const auto steps = schemas.size() * (1 + key.size() / bytes_per_spent);
  if (schemas.empty() || !spend(steps, schemas.front().schema)) return out;
  static const json::value nothing = false;
  for (std::size_t i = 0; i < schemas.size(); ++i) {
    const schema_ptr schema = schemas[i].schema;
    if (const auto* properties = member(schema, "properties"))
      if (const auto* own = properties->get_object().if_contains(key))
        out.push_back(own), is_evaluated[i] = true;
    if (const auto* patterns = member(schema, "patternProperties"))
      for (const auto& entry : patterns->get_object()) {
        const std::string_view pattern(entry.key().data(), entry.key().size());
        const auto found = matches_pattern(pattern, key, schema);
        if (!found) return refuse_pattern(pattern, schema, "patternProperties"), out;
        if (*found) out.push_back(&entry.value()), is_evaluated[i] = true;
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
        out.push_back(&nothing);
    }
  }
  const auto rest = unevaluated(schemas, "unevaluatedProperties", is_evaluated);
  out.insert(out.end(), rest.begin(), rest.end());
  return out;
}

void schema_algebra::refuse_pattern(std::string_view pattern, schema_ptr where, std::string_view keyword) {
  const auto& regex = facts_.regex(pattern);
  if (regex)
    refuse(errc::unsupported, where, keyword, "this pattern is too large beside texts that the schema names");
  else
    refuse(regex.error().code(), where, keyword, regex.error().message());
}

std::vector<schema_ptr> schema_algebra::other_member_schemas(const conjunction& schemas) {
  std::vector<schema_ptr> out;
  std::vector<bool> is_evaluated(schemas.size(), false);
  for (std::size_t i = 0; i < schemas.size(); ++i)
    if (const auto* others = member(schemas[i].schema, "additionalProperties"))
      out.push_back(others), is_evaluated[i] = true;
  const auto rest = unevaluated(schemas, "unevaluatedProperties", is_evaluated);
  out.insert(out.end(), rest.begin(), rest.end());
  return out;
}

} // namespace paceline::grammar
