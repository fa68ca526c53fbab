// Names of an object's members: the names that schemas list, and the tests that every other name must pass.
#include "runtime/grammar/regex_syntax.hpp"
#include "runtime/grammar/schema_keywords.hpp"
#include "runtime/grammar/schema_writer.hpp"

#include <algorithm>
#include <map>
#include <set>

namespace paceline::grammar {

namespace {

namespace json = boost::json;

constexpr std::size_t max_name_states = 160; ///< of an automaton for names
constexpr std::size_t max_name_tests = 32;

} // namespace

std::vector<std::string> schema_writer::named_keys(const conjunction& schemas) {
  std::vector<std::string> keys;
  std::set<std::string> known;
  const auto put = [&](std::string key) {
    if (known.insert(key).second) keys.push_back(std::move(key));
  };
  for (const auto& [schema, parent] : schemas)
    if (const auto* properties = schema->get_object().if_contains("properties"))
      for (const auto& entry : properties->get_object()) put(std::string(entry.key()));
  for (const auto& [schema, parent] : schemas)
    if (const auto* required = schema->get_object().if_contains("required"))
      for (const auto& key : required->get_array()) put(std::string(key.get_string()));
  return keys;
}

std::string schema_writer::other_member(const conjunction& schemas, const std::vector<std::string>& keys) {
  const std::string end = " \":\" ws ";
  const bool is_plain = std::none_of(schemas.begin(), schemas.end(), [](const conjunct& c) {
    return member(c.schema, "propertyNames") != nullptr || member(c.schema, "patternProperties") != nullptr;
  });
  if (!is_plain) return matched_member(schemas, keys);
  const std::string rest = value(algebra_.other_member_schemas(schemas));
  if (rest.empty()) return "";
  if (keys.empty()) return add_rule("o", "json_string" + end + rest);
  // If there is no room for rules that exclude the names in `keys`, the object has no other members.
  const std::string name = text_except({keys.begin(), keys.end()});
  return name.empty() ? "" : add_rule("o", name + end + rest);
}

/// The tests for the name of a member. The object holds pointers to its own members, so it must not be moved.
struct schema_writer::name_tests {
  name_tests() = default;
  name_tests(const name_tests&) = delete;
  name_tests& operator=(const name_tests&) = delete;

  void put(text_condition condition, bool is_wanted) {
    counts |= std::uint64_t{1} << conditions.size();
    if (is_wanted) wanted |= std::uint64_t{1} << conditions.size();
    conditions.push_back(condition);
  }

  std::vector<text_condition> conditions; ///< those of `patterns` first, in their order
  std::uint64_t counts = 0;               ///< bits of the conditions that must be as in `wanted`
  std::uint64_t wanted = 0;
  std::vector<std::pair<std::size_t, schema_ptr>> patterns; ///< number of the conjunct, schema of the value
  std::vector<schema_ptr> names;                            ///< schemas of `propertyNames`
  std::set<std::string> known;                              ///< members that are named elsewhere
  text_terms terms;
  std::vector<std::set<std::string>> listed; ///< a name must be in each of these sets
  schema_ptr from = nullptr;                 ///< where a refusal points
  std::string_view keyword;
};

void schema_writer::collect_patterns(const conjunction& schemas, name_tests& to) {
  for (std::size_t i = 0; i < schemas.size(); ++i) {
    if (const auto* own = member(schemas[i].schema, "propertyNames"))
      to.names.push_back(own), to.from = schemas[i].schema, to.keyword = "propertyNames";
    const auto* own = member(schemas[i].schema, "patternProperties");
    if (own == nullptr) continue;
    to.from = schemas[i].schema, to.keyword = "patternProperties";
    for (const auto& entry : own->get_object()) {
      to.conditions.push_back(
          {.regex = regex_of(to.from, to.keyword, {entry.key().data(), entry.key().size()})});
      to.patterns.emplace_back(i, &entry.value());
    }
  }
}

schema_writer::names_found schema_writer::collect_names(name_tests& to) {
  static const json::value is_text = json::object{{"type", "string"}};
  if (to.names.empty()) return names_found::tested;
  to.names.push_back(&is_text);
  const auto alternatives = algebra_.alternatives(to.names);
  if (failure() || alternatives.empty()) return names_found::none;
  if (alternatives.size() > 1) return names_found::unsupported;
  add_text_terms(alternatives.front(), to.terms);
  for (const auto& [schema, parent] : alternatives.front()) {
    const auto* values = member(schema, "enum");
    const auto* only = member(schema, "const");
    if (only != nullptr) to.listed.emplace_back().emplace(only->get_string());
    if (values == nullptr) continue;
    auto& texts = to.listed.emplace_back();
    for (const auto& one : values->get_array())
      if (one.is_string()) texts.emplace(one.get_string());
  }
  return names_found::tested;
}

bool schema_writer::put_name_tests(name_tests& to) {
  auto& terms = to.terms;
  if (to.conditions.size() + terms.regexes.size() + to.listed.size() > max_name_tests) return false;
  if (!to.known.empty()) to.put({.texts = &to.known}, false);
  if (!terms.excluded.empty()) to.put({.texts = &terms.excluded}, false);
  for (const auto& texts : to.listed) to.put({.texts = &texts}, true);
  for (const auto& [regex, is_wanted] : terms.regexes) to.put({.regex = regex}, is_wanted);
  if (terms.format != nullptr) to.put({.regex = regex_of(to.from, to.keyword, terms.format->pattern)}, true);
  // The pattern of a format is exact enough for short texts only.
  if (terms.format != nullptr) terms.most = std::min(terms.most.value_or(60), 60U);
  if (terms.least || terms.most)
    to.put({.min_length = terms.least.value_or(0), .max_length = terms.most.value_or(unbounded)}, true);
  return true;
}

std::string schema_writer::value_of_member(const conjunction& schemas, const name_tests& tests,
                                           std::uint64_t obeyed) {
  std::vector<schema_ptr> out;
  std::vector<bool> is_evaluated(schemas.size(), false);
  for (std::size_t i = 0; i < tests.patterns.size(); ++i)
    if (((obeyed >> i) & 1U) != 0)
      out.push_back(tests.patterns[i].second), is_evaluated[tests.patterns[i].first] = true;
  for (std::size_t i = 0; i < schemas.size(); ++i)
    if (const auto* others = member(schemas[i].schema, "additionalProperties");
        others != nullptr && !is_evaluated[i])
      out.push_back(others), is_evaluated[i] = true;
  const auto rest = unevaluated(schemas, "unevaluatedProperties", is_evaluated);
  out.insert(out.end(), rest.begin(), rest.end());
  return value(out);
}

std::string schema_writer::matched_member(const conjunction& schemas, const std::vector<std::string>& keys) {
  name_tests tests;
  tests.known = {keys.begin(), keys.end()};
  collect_patterns(schemas, tests);
  const auto refuse = [&] {
    // If the schema lists names of members, other members are simply left out.
    if (keys.empty())
      algebra_.refuse(errc::unsupported, tests.from, tests.keyword,
                      "such names of members are not supported");
    return std::string();
  };
  const auto found = collect_names(tests);
  if (found == names_found::none) return "";
  if (found == names_found::unsupported || !put_name_tests(tests)) return refuse();
  if (failure()) return "";
  std::map<std::uint64_t, std::string> endings;
  const auto automaton = text_automaton::make(
      tests.conditions,
      [&](std::uint64_t obeyed) {
        if ((obeyed & tests.counts) != tests.wanted) return false;
        const auto [ending, is_new] = endings.try_emplace(obeyed);
        if (is_new) ending->second = value_of_member(schemas, tests, obeyed);
        return !ending->second.empty();
      },
      max_name_states, algebra_.facts().automaton_work());
  if (failure()) return "";
  if (!automaton || !spend_places(automaton->states().size())) return refuse();
  const std::string first = automaton_rules(
      *automaton, [&](std::uint64_t obeyed) { return R"("\"" ":" ws )" + endings.at(obeyed); });
  return first.empty() ? first : add_rule("o", R"("\"" )" + first);
}

} // namespace paceline::grammar
