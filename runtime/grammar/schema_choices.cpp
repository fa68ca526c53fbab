// The alternatives of "anyOf" and "oneOf".
#include "runtime/grammar/schema_algebra.hpp"
#include "runtime/grammar/schema_keywords.hpp"

#include <algorithm>
#include <initializer_list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

namespace paceline::grammar {

namespace {

namespace json = boost::json;

constexpr std::size_t max_one_of = 32;
constexpr std::size_t listed_per_spent = 16;

bool has_only(schema_ptr schema, std::initializer_list<std::string_view> keywords) {
  return std::ranges::all_of(schema->get_object(), [&](const auto& entry) {
    const std::string_view name(entry.key().data(), entry.key().size());
    return !is_enforced(name) || std::ranges::find(keywords, name) != keywords.end();
  });
}

bool lists_values(schema_ptr schema) {
  return member(schema, "const") != nullptr || member(schema, "enum") != nullptr;
}

/// True if the schema's own "type" is "integer": such values are written without a fraction.
bool is_of_integers(schema_ptr schema) {
  const auto* type = member(schema, "type");
  return type != nullptr && type->is_string() && type->get_string() == "integer";
}

} // namespace

std::optional<schema_algebra::value_list> schema_algebra::only_values(schema_ptr schema) {
  if (!schema->is_object() || !lists_values(schema) || !has_only(schema, {"const", "enum", "type"}))
    return std::nullopt;
  if (!check(schema)) return std::nullopt;
  value_list out;
  const auto types = facts_.types_of(schema);
  const auto put = [&](const json::value& value) {
    if ((type_of(value) & types) != 0) out.push_back(&value);
  };
  const auto* only = member(schema, "const");
  const auto* listed = member(schema, "enum");
  if (only == nullptr)
    for (const auto& value : listed->get_array()) put(value);
  else if (listed == nullptr || facts_.lists(*listed, facts_.text(*only)))
    put(*only);
  return spend(1 + out.size() / listed_per_spent, schema) ? std::optional(std::move(out)) : std::nullopt;
}

std::vector<schema_algebra::alternative>
schema_algebra::united_lists(schema_ptr schema, std::string_view keyword, const numbered_lists& lists) {
  std::vector<alternative> out;
  const auto& branches = member(schema, keyword)->get_array();
  std::map<std::string_view, std::size_t> num_lists; // that have a value, by its canonical text
  for (const auto& [number, values] : lists) {
    std::set<std::string_view> texts;
    for (const auto* value : values) texts.insert(facts_.text(*value));
    for (const auto text : texts) ++num_lists[text];
  }
  for (const bool of_integers : {false, true}) {
    json::array all, allowed;
    std::set<std::string_view> seen;
    std::optional<std::size_t> first;
    for (const auto& [number, values] : lists) {
      if (is_of_integers(&branches[number]) != of_integers) continue;
      if (!first) first = number;
      for (const auto* value : values) {
        const std::string_view text = facts_.text(*value);
        if (!seen.insert(text).second) continue;
        all.push_back(*value);
        if (keyword == "anyOf" || num_lists[text] == 1) allowed.push_back(*value);
      }
    }
    if (!first) continue;
    json::object own{{"enum", std::move(allowed)}};
    if (of_integers) own["type"] = "integer";
    out.push_back(
        {keep(json::object{{"enum", std::move(all)}}, schema), keep(std::move(own), schema), *first});
  }
  return out;
}

const std::vector<schema_algebra::alternative>& schema_algebra::united(schema_ptr schema,
                                                                       std::string_view keyword) {
  const auto known = united_.find({schema, keyword});
  if (known != united_.end()) return known->second;
  const auto& branches = member(schema, keyword)->get_array();
  numbered_lists lists;
  for (std::size_t i = 0; i < branches.size() && !failure_; ++i)
    if (auto values = only_values(&branches[i])) lists.emplace_back(i, *std::move(values));
  if (lists.size() < 2) lists.clear();
  std::vector<alternative> out = united_lists(schema, keyword, lists);
  for (std::size_t i = 0; i < branches.size(); ++i)
    if (!std::ranges::binary_search(lists, i, {}, &numbered_lists::value_type::first))
      out.push_back({&branches[i], &branches[i], i});
  std::ranges::sort(out, {}, &alternative::number);
  return united_.emplace(std::pair(schema, keyword), std::move(out)).first->second;
}

std::vector<schema_ptr> schema_algebra::separate_alternatives(const std::vector<schema_ptr>& roots) {
  std::vector<schema_ptr> out;
  if (roots.size() != 1 || !roots.front()->is_object()) return out;
  const schema_ptr schema = roots.front();
  const auto* any = member(schema, "anyOf");
  if (any == nullptr || !has_only(schema, {"anyOf"}) || !check(schema)) return out;
  if (any->get_array().size() <= max_alternatives) return out;
  for (const auto& one : united(schema, "anyOf")) out.push_back(one.allowed);
  if (out.size() <= max_alternatives || !spend(out.size(), schema)) out.clear();
  return out;
}

const std::vector<std::string_view>& schema_algebra::tags_of(schema_ptr schema) {
  const auto [found, is_new] = tags_.try_emplace(schema);
  auto& tags = found->second;
  partial alone;
  if (!is_new || !add(alone, schema, -1)) return tags;
  for (const auto& [one, parent] : alone.schemas) {
    const auto* properties = member(one, "properties");
    if (properties == nullptr) continue;
    for (const auto& entry : properties->get_object()) {
      partial value;
      const bool is_tag = add(value, &entry.value(), -1) &&
                          std::ranges::any_of(value.schemas, lists_values, &conjunct::schema);
      if (is_tag) tags.emplace_back(entry.key().data(), entry.key().size());
    }
  }
  return tags;
}

schema_ptr schema_algebra::separating_member(const partial& in, schema_ptr one_of, schema_ptr a,
                                             schema_ptr b) {
  const auto& others = tags_of(b);
  for (const std::string_view name : tags_of(a)) {
    if (failure_ || std::ranges::find(others, name) == others.end()) continue;
    auto& required = required_members_[{one_of, name}];
    if (required == nullptr)
      required = keep(json::object{{"required", json::array{json::string(name)}}}, one_of);
    if (is_empty(in.schemas, {a, b, required}, 0)) return required;
  }
  return nullptr;
}

schema_algebra::choice schema_algebra::resolved(const partial& in, choice open) {
  schema_ptr schema = open.one_of;
  if (schema == nullptr) return open;
  const auto& branches = united(schema, "oneOf");
  branch_lists out;
  if (branches.size() > max_one_of) refuse(errc::unsupported, schema, "oneOf", "more than 32 alternatives");
  for (std::size_t i = 0; i < branches.size() && !failure_; ++i) out.push_back({{branches[i].allowed}});
  for (std::size_t i = 0; i < branches.size() && !failure_; ++i)
    for (std::size_t k = i + 1; k < branches.size() && !failure_; ++k) {
      if (is_empty(in.schemas, {branches[i].whole, branches[k].whole}, 0)) continue;
      if (const schema_ptr tag = separating_member(in, schema, branches[i].whole, branches[k].whole)) {
        for (const std::size_t to : {i, k}) out[to].push_back({tag, false});
        continue;
      }
      // "oneOf" does not allow a value that both alternatives allow. So each of the two gets the opposite of
      // the other.
      for (const auto& [to, other] : {std::pair{i, k}, std::pair{k, i}}) {
        const schema_ptr rest = opposite_of(branches[other].whole);
        if (rest == nullptr) {
          refuse(errc::unsupported, schema, "oneOf",
                 "alternatives " + std::to_string(branches[i].number) + " and " +
                     std::to_string(branches[k].number) + " may allow the same value");
          break;
        }
        out[to].push_back({rest, false});
      }
    }
  return {std::make_shared<const branch_lists>(std::move(out)), open.parent};
}

} // namespace paceline::grammar
