#include "runtime/grammar/schema_algebra.hpp"

#include "runtime/grammar/schema_grammar.hpp"
#include "runtime/grammar/schema_keywords.hpp"

#include <algorithm>
#include <utility>

namespace paceline::grammar {

namespace {

namespace json = boost::json;

constexpr std::size_t values_per_spent = 16;

std::string_view text_of(const json::value& value) { return view(value.get_string()); }

} // namespace

void schema_algebra::refuse(errc code, schema_ptr where, std::string_view keyword, std::string_view rule) {
  fail(document_.refusal(code, where, keyword, rule));
}

bool schema_algebra::spend(std::size_t steps, schema_ptr where) {
  steps_ += steps;
  if (steps_ > most_schema_cost.steps)
    refuse(errc::unsupported, where, "", "the combinations of these schemas are too many");
  return !failure_;
}

bool schema_algebra::check(schema_ptr schema) {
  if (checked_.contains(schema)) return true;
  if (auto checked = check_keywords(document_, schema); !checked) {
    fail(checked.error());
    return false;
  }
  checked_.insert(schema);
  return true;
}

schema_ptr schema_algebra::referred(schema_ptr from, std::string_view keyword) {
  const auto* reference = member(from, keyword);
  if (reference == nullptr) return nullptr;
  if (keyword == here_keyword) return document_.at_handle(*reference);
  auto target = document_.resolve(from, keyword);
  if (!target) fail(target.error());
  return target ? *target : nullptr;
}

bool schema_algebra::add(partial& to, schema_ptr schema, std::ptrdiff_t parent) {
  std::vector<conjunct> pending{{schema, parent}};
  while (!pending.empty() && !failure_) {
    const conjunct next = pending.back();
    pending.pop_back();
    if (!spend(1 + to.schemas.size() / 8, next.schema)) return false;
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
    if (is_known) continue;
    if (!check(next.schema)) return false;
    const auto self = static_cast<std::ptrdiff_t>(to.schemas.size());
    to.schemas.push_back(next);
    for (const std::string_view keyword :
         {std::string_view("$dynamicRef"), std::string_view("$ref"), here_keyword})
      if (const auto target = referred(next.schema, keyword)) pending.push_back({target, self});
    if (const auto* all = member(next.schema, "allOf"))
      for (auto it = all->get_array().rbegin(); it != all->get_array().rend(); ++it)
        pending.push_back({&*it, self});
    add_choices(to, next.schema, self);
  }
  return !failure_ && types_of(to.schemas) != 0;
}

void schema_algebra::add_choices(partial& to, schema_ptr schema, std::ptrdiff_t self) {
  const auto& own = choices_of(schema);
  if (!spend(own.size(), schema)) return;
  // "oneOf" is resolved when everything else about the value is known.
  if (member(schema, "oneOf") != nullptr) to.open.insert(to.open.begin(), choice{nullptr, self, schema});
  for (const auto& one : own) to.open.push_back({one.lists, self});
}

const std::vector<schema_algebra::choice>& schema_algebra::choices_of(schema_ptr schema) {
  const auto known = choices_.find(schema);
  if (known != choices_.end()) return known->second;
  std::vector<choice> out;
  if (const auto* any = member(schema, "anyOf"); any != nullptr && spend(any->get_array().size(), schema)) {
    branch_lists lists;
    for (const auto& one : united(schema, "anyOf")) lists.push_back({{one.allowed}});
    out.push_back({std::make_shared<const branch_lists>(std::move(lists)), -1});
  }
  put_negation(schema, out);
  put_condition(schema, out);
  put_dependencies(schema, out);
  return choices_.emplace(schema, std::move(out)).first->second;
}

void schema_algebra::put_negation(schema_ptr schema, std::vector<choice>& out) {
  const auto* inner = member(schema, "not");
  if (inner == nullptr) return;
  const auto& others = negation(inner);
  if (!others) return refuse(errc::unsupported, schema, "not", "this negation is not supported");
  branch_lists lists;
  for (schema_ptr other : *others) lists.push_back({{other, false}});
  out.push_back({std::make_shared<const branch_lists>(std::move(lists)), -1});
}

void schema_algebra::put_condition(schema_ptr schema, std::vector<choice>& out) {
  const auto* test = member(schema, "if");
  const auto* then = member(schema, "then");
  const auto* otherwise = member(schema, "else");
  // Without "then" and "else", an "if" only determines which members or items count as evaluated.
  const bool is_needed = then != nullptr || otherwise != nullptr || document_.has_unevaluated();
  if (test == nullptr || !is_needed) return;
  const auto& others = negation(test);
  if (!others)
    return refuse(errc::unsupported, schema, "if", "the negation of this condition is not supported");
  branch_lists lists{{{test}}};
  if (then != nullptr) lists.front().push_back({then});
  for (schema_ptr other : *others) {
    lists.push_back({{other, false}});
    if (otherwise != nullptr) lists.back().push_back({otherwise});
  }
  out.push_back({std::make_shared<const branch_lists>(std::move(lists)), -1});
}

void schema_algebra::put_dependencies(schema_ptr schema, std::vector<choice>& out) {
  for (const std::string_view keyword : {"dependentRequired", "dependentSchemas"}) {
    const auto* dependencies = member(schema, keyword);
    if (dependencies == nullptr) continue;
    for (const auto& entry : dependencies->get_object()) {
      if (failure_) return;
      json::object absent{{"properties", {{entry.key(), false}}}};
      json::array required{json::string(entry.key())};
      json::object present{{"type", "object"}};
      if (entry.value().is_array())
        for (const auto& name : entry.value().get_array()) required.push_back(name);
      present["required"] = std::move(required);
      branch_lists lists;
      lists.push_back({{keep(std::move(absent), schema), false}});
      lists.push_back({{keep(std::move(present), schema), false}});
      if (!entry.value().is_array()) lists.back().push_back({&entry.value()});
      out.push_back({std::make_shared<const branch_lists>(std::move(lists)), -1});
    }
  }
}

schema_ptr schema_algebra::keep(json::value part, schema_ptr schema) {
  spend(size_of(part), schema);
  return document_.add(std::move(part), schema);
}

std::vector<conjunction> schema_algebra::alternatives(const std::vector<schema_ptr>& roots) {
  std::vector<conjunction> out;
  partial first;
  for (schema_ptr root : roots)
    if (!add(first, root, -1)) return out;
  // The search goes depth first. There is a frame for each choice on the current path, with the number of its
  // next list.
  struct frame {
    partial before;
    choice lists;
    std::size_t next = 0;
  };
  std::vector<frame> frames;
  const auto enter = [&](partial now) {
    if (now.open.empty()) {
      out.push_back(std::move(now.schemas));
      if (out.size() > max_alternatives)
        refuse(errc::unsupported, roots.front(), "", "the combinations of these schemas are too many");
      return;
    }
    auto open = std::move(now.open.back());
    now.open.pop_back();
    auto lists = resolved(now, std::move(open));
    frames.push_back({std::move(now), std::move(lists)});
  };
  enter(std::move(first));
  while (!frames.empty() && !failure_) {
    auto& top = frames.back();
    if (top.next == top.lists.lists->size()) {
      frames.pop_back();
      continue;
    }
    const auto [lists, parent, one_of] = top.lists; // a copy: the frame moves when another frame is added
    const auto& list = (*lists)[top.next++];
    if (!spend(1 + (top.before.schemas.size() + top.before.open.size()) / 8, roots.front())) break;
    partial with = top.before;
    const bool is_possible = std::all_of(list.begin(), list.end(), [&, self = parent](const branch& one) {
      return add(with, one.schema, one.is_included ? self : -1);
    });
    if (is_possible) enter(std::move(with));
  }
  return out;
}

std::vector<const json::value*> schema_algebra::excluded_values(const conjunction& schemas, type_set types) {
  std::vector<const json::value*> out;
  const auto put = [&](const json::value& value) {
    if ((type_of(value) & types) != 0) out.push_back(&value);
  };
  for (const auto& [schema, parent] : schemas) {
    if (const auto* one = member(schema, not_value_keyword)) put(*document_.at_handle(*one));
    const auto* list = member(schema, not_in_keyword);
    if (list == nullptr) continue;
    const auto& values = document_.at_handle(*list)->get_array();
    if (!spend(values.size() / values_per_spent, schema)) break;
    for (const auto& value : values) put(value);
  }
  return out;
}

bool schema_algebra::is_excluded(const conjunction& schemas, const json::value& value) {
  const std::string text = canonical_text(value);
  return std::any_of(schemas.begin(), schemas.end(),
                     [&](const conjunct& c) { return is_excluded(c.schema, text); });
}

bool schema_algebra::is_excluded(schema_ptr schema, const std::string& text) {
  const auto* one = member(schema, not_value_keyword);
  const auto* list = member(schema, not_in_keyword);
  return (one != nullptr && facts_.text(*document_.at_handle(*one)) == text) ||
         (list != nullptr && facts_.lists(*document_.at_handle(*list), text));
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
    // Each schema is checked alone. The schemas that it combines are in the conjunction themselves, or are
    // what the caller asks about.
    const auto fails = [&](const json::value& value) {
      return std::any_of(schemas.begin(), schemas.end(),
                         [&](const conjunct& c) { return is_valid_alone(value, c.schema, 0) == false; });
    };
    return only != nullptr ? fails(*only)
                           : std::all_of(listed->get_array().begin(), listed->get_array().end(), fails);
  }
  type_set types = types_of(schemas);
  const auto bounds = bounds_of(schemas);
  if (bounds.is_exact && is_empty_range(bounds.min, bounds.max, (types & number_types) == integer_type))
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
