#include "runtime/grammar/schema_algebra.hpp"

#include "runtime/grammar/schema_keywords.hpp"

#include <algorithm>
#include <utility>

namespace paceline::grammar {

namespace {

namespace json = boost::json;

constexpr std::size_t max_alternatives = 64;
constexpr std::size_t max_steps = 200'000;
constexpr std::size_t max_one_of = 32;

std::string_view text_of(const json::value& value) {
  const auto& text = value.get_string();
  return {text.data(), text.size()};
}

} // namespace

void schema_algebra::refuse(errc code, schema_ptr where, std::string_view keyword, std::string_view rule) {
  fail(document_.refusal(code, where, keyword, rule));
}

bool schema_algebra::spend(std::size_t steps, schema_ptr where) {
  steps_ += steps;
  if (steps_ > max_steps)
    refuse(errc::unsupported, where, "", "the combinations of these schemas are too many");
  return !failure_;
}

bool schema_algebra::add(partial& to, schema_ptr schema, std::ptrdiff_t parent) {
  std::vector<conjunct> pending{{schema, parent}};
  while (!pending.empty() && !failure_) {
    const conjunct next = pending.back();
    pending.pop_back();
    if (const auto* flag = next.schema->if_bool()) {
      if (!*flag) return false;
      continue;
    }
    if (!next.schema->is_object()) {
      refuse(errc::invalid_argument, next.schema, "", "must be a schema: an object or a boolean");
      return false;
    }
    const bool is_known = std::any_of(to.schemas.begin(), to.schemas.end(),
                                      [&](const conjunct& c) { return c.schema == next.schema; });
    if (is_known || !spend(1 + to.schemas.size() / 8, next.schema)) continue;
    if (auto checked = check_keywords(document_, next.schema); !checked) {
      fail(checked.error());
      return false;
    }
    const auto self = static_cast<std::ptrdiff_t>(to.schemas.size());
    to.schemas.push_back(next);
    for (const std::string_view keyword : {"$dynamicRef", "$ref"}) {
      const auto* reference = member(next.schema, keyword);
      if (reference == nullptr) continue;
      auto target = document_.resolve(next.schema, text_of(*reference));
      if (!target)
        fail(target.error());
      else
        pending.push_back({*target, self});
    }
    if (const auto* all = member(next.schema, "allOf"))
      for (auto it = all->get_array().rbegin(); it != all->get_array().rend(); ++it)
        pending.push_back({&*it, self});
    add_choices(to, next.schema, self);
  }
  return !failure_ && types_of(to.schemas) != 0;
}

void schema_algebra::add_choices(partial& to, schema_ptr schema, std::ptrdiff_t self) {
  if (const auto* any = member(schema, "anyOf")) {
    choice one{{}, self};
    for (const auto& schema_in_it : any->get_array()) one.lists.push_back({{&schema_in_it}});
    to.open.push_back(std::move(one));
  }
  // "oneOf" is resolved when everything else about the value is known.
  if (member(schema, "oneOf") != nullptr) to.open.insert(to.open.begin(), choice{{}, self, schema});
  if (const auto* inner = member(schema, "not")) {
    const auto others = negation(inner);
    if (!others) return refuse(errc::unsupported, schema, "not", "this negation is not supported");
    choice one{{}, self};
    for (schema_ptr other : *others) one.lists.push_back({{other, false}});
    to.open.push_back(std::move(one));
  }
  if (const auto* test = member(schema, "if")) {
    const auto* then = member(schema, "then");
    const auto* otherwise = member(schema, "else");
    if (then != nullptr || otherwise != nullptr) {
      const auto others = negation(test);
      if (!others)
        return refuse(errc::unsupported, schema, "if", "the negation of this condition is not supported");
      choice one{{{{test}}}, self};
      if (then != nullptr) one.lists.front().push_back({then});
      for (schema_ptr other : *others) {
        one.lists.push_back({{other, false}});
        if (otherwise != nullptr) one.lists.back().push_back({otherwise});
      }
      to.open.push_back(std::move(one));
    }
  }
  add_dependencies(to, schema, self);
}

void schema_algebra::add_dependencies(partial& to, schema_ptr schema, std::ptrdiff_t self) {
  for (const std::string_view keyword : {"dependentRequired", "dependentSchemas"}) {
    const auto* dependencies = member(schema, keyword);
    if (dependencies == nullptr) continue;
    for (const auto& entry : dependencies->get_object()) {
      json::object absent{{"properties", {{entry.key(), false}}}};
      json::array required{json::string(entry.key())};
      json::object present{{"type", "object"}};
      if (entry.value().is_array())
        for (const auto& name : entry.value().get_array()) required.push_back(name);
      present["required"] = std::move(required);
      choice one{{}, self};
      one.lists.push_back({{document_.add(std::move(absent), schema), false}});
      one.lists.push_back({{document_.add(std::move(present), schema), false}});
      if (!entry.value().is_array()) one.lists.back().push_back({&entry.value()});
      to.open.push_back(std::move(one));
    }
  }
}

schema_algebra::choice schema_algebra::resolved(const partial& in, choice open) {
  schema_ptr schema = open.one_of;
  if (schema == nullptr) return open;
  const auto& branches = schema->get_object().at("oneOf").get_array();
  choice out{{}, open.parent};
  if (branches.size() > max_one_of) refuse(errc::unsupported, schema, "oneOf", "more than 32 alternatives");
  for (const auto& one : branches) out.lists.push_back({{&one}});
  for (std::size_t i = 0; i < branches.size() && !failure_; ++i)
    for (std::size_t k = i + 1; k < branches.size() && !failure_; ++k) {
      if (is_empty(in.schemas, {&branches[i], &branches[k]}, 0)) continue;
      // Values that both allow are allowed by neither.
      for (const auto& [to, other] : {std::pair{i, k}, std::pair{k, i}}) {
        const auto others = negation(&branches[other]);
        if (!others) {
          refuse(errc::unsupported, schema, "oneOf",
                 "alternatives " + std::to_string(i) + " and " + std::to_string(k) +
                     " may allow the same value");
          break;
        }
        json::array any;
        for (schema_ptr one : *others) any.push_back(*one);
        json::value rest =
            any.empty() ? json::value(false) : json::value(json::object{{"anyOf", std::move(any)}});
        out.lists[to].push_back({document_.add(std::move(rest), schema), false});
      }
    }
  return out;
}

std::vector<conjunction> schema_algebra::alternatives(const std::vector<schema_ptr>& roots) {
  std::vector<conjunction> out;
  std::vector<partial> pending(1);
  for (schema_ptr root : roots)
    if (!add(pending.front(), root, -1)) return out;
  while (!pending.empty() && !failure_) {
    partial now = std::move(pending.back());
    pending.pop_back();
    if (now.open.empty()) {
      out.push_back(std::move(now.schemas));
      if (out.size() > max_alternatives)
        refuse(errc::unsupported, roots.front(), "", "the combinations of these schemas are too many");
      continue;
    }
    choice open = std::move(now.open.back());
    now.open.pop_back();
    const choice next = resolved(now, std::move(open));
    for (auto list = next.lists.rbegin(); list != next.lists.rend() && !failure_; ++list) {
      if (!spend(1 + now.schemas.size() / 8, roots.front())) break;
      partial with = now;
      const bool is_possible = std::all_of(list->begin(), list->end(), [&](const branch& one) {
        return add(with, one.schema, one.is_included ? next.parent : -1);
      });
      if (is_possible) pending.push_back(std::move(with));
    }
  }
  return out;
}

bool schema_algebra::is_empty(const conjunction& schemas, const std::vector<schema_ptr>& more,
                              std::size_t depth) {
  partial all{schemas, {}};
  for (schema_ptr schema : more)
    if (!add(all, schema, -1)) return !failure_;
  return is_empty(all.schemas, depth);
}

bool schema_algebra::is_empty(const conjunction& schemas, std::size_t depth) {
  constexpr std::size_t max_depth = 3;
  if (depth > max_depth || schemas.empty() || !spend(schemas.size(), schemas.front().schema)) return false;
  for (const auto& [schema, parent] : schemas) {
    const auto* only = member(schema, "const");
    const auto* listed = member(schema, "enum");
    if (only == nullptr && listed == nullptr) continue;
    const auto fails = [&](const json::value& value) {
      return std::any_of(schemas.begin(), schemas.end(),
                         [&](const conjunct& c) { return is_valid(value, c.schema) == false; });
    };
    return only != nullptr ? fails(*only)
                           : std::all_of(listed->get_array().begin(), listed->get_array().end(), fails);
  }
  type_set types = types_of(schemas);
  const auto bounds = bounds_of(schemas);
  if ((types & number_types) != 0 && (bounds.min || bounds.max) &&
      number_range(bounds.min, bounds.max).empty())
    types &= static_cast<type_set>(~number_types);
  if ((types & object_type) != 0) {
    for (const auto& [schema, parent] : schemas) {
      const auto* required = member(schema, "required");
      if (required == nullptr) continue;
      for (const auto& key : required->get_array()) {
        const auto values = member_schemas(schemas, text_of(key));
        partial value;
        const bool is_possible =
            std::all_of(values.begin(), values.end(), [&](schema_ptr s) { return add(value, s, -1); });
        if (!failure_ && (!is_possible || is_empty(value.schemas, depth + 1))) {
          types &= static_cast<type_set>(~object_type);
          break;
        }
      }
    }
  }
  return types == 0;
}

} // namespace paceline::grammar
