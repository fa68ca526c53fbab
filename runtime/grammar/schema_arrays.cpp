// Rules for arrays whose items are counted.
#include "runtime/grammar/schema_writer.hpp"

#include <algorithm>
#include <functional>

namespace paceline::grammar {

namespace {

namespace json = boost::json;

constexpr std::size_t max_states = 1'000;

/// The requirement of one "contains".
struct counted {
  std::size_t at; ///< number of its schema in the conjunction
  std::uint32_t min;
  std::uint32_t max;   ///< `unbounded`: there is no maximum
  schema_ptr opposite; ///< schema of an item that is not counted; nullptr: any item, because there cannot be
                       ///< too many

  /// The largest count that makes a difference. A state counts items up to this number.
  std::uint32_t limit() const { return max == unbounded ? min : max; }
};

} // namespace

/// Writes the rules of arrays as a state machine. `next(state)` returns the possible items, each as a rule
/// with the state after it, and whether the array may end in this state.
std::string schema_writer::machine(schema_ptr from, std::string_view keyword, const machine_state& start,
                                   const std::function<machine_ways(const machine_state&)>& next) {
  const std::string prefix = new_name("t") + "_";
  std::map<machine_state, std::size_t> numbers{{start, 0}};
  std::vector<machine_state> states{start};
  std::vector<machine_ways> ways;
  for (std::size_t i = 0; i < states.size() && !failure(); ++i) {
    ways.push_back(next(machine_state(states[i])));
    for (const auto& [item, to] : ways.back().items)
      if (numbers.emplace(to, states.size()).second) states.push_back(to);
    if (states.size() > max_states)
      algebra_.refuse(errc::unsupported, from, keyword, "it would need more than 1000 states");
  }
  if (failure()) return "";
  std::vector<bool> is_alive(states.size(), false);
  for (bool is_changed = true; is_changed;) {
    is_changed = false;
    for (std::size_t i = states.size(); i-- > 0;) {
      if (is_alive[i]) continue;
      is_alive[i] =
          ways[i].may_end || std::any_of(ways[i].items.begin(), ways[i].items.end(),
                                         [&](const auto& way) { return is_alive[numbers.at(way.second)]; });
      is_changed = is_changed || is_alive[i];
    }
  }
  if (!is_alive[0]) return "";
  for (std::size_t i = 0; i < states.size(); ++i) {
    if (!is_alive[i]) continue;
    // In the first state no item precedes, so there is no comma. No other state leads back to it.
    std::string body = ways[i].may_end ? (i == 0 ? "\"\"" : "ws") : "";
    for (const auto& [item, to] : ways[i].items)
      if (is_alive[numbers.at(to)])
        add_alternative(body,
                        (i == 0 ? "" : "\",\" ws ") + item + " " + prefix + std::to_string(numbers.at(to)));
    new_name("");
    define(prefix + std::to_string(i), body);
  }
  return "\"[\" ws " + prefix + "0 \"]\"";
}

std::string schema_writer::counted_array(const conjunction& schemas) {
  constexpr std::size_t max_counted = 4;
  std::vector<counted> counts;
  std::size_t num_places = std::max(largest(schemas, "minItems").value_or(0), 1U);
  for (std::size_t i = 0; i < schemas.size(); ++i) {
    if (const auto* prefix = member(schemas[i].schema, "prefixItems"))
      num_places = std::max(num_places, prefix->get_array().size());
    const auto* contained = member(schemas[i].schema, "contains");
    if (contained == nullptr) continue;
    const conjunction alone{schemas[i]};
    counted one{i, largest(alone, "minContains").value_or(1),
                smallest(alone, "maxContains").value_or(unbounded), nullptr};
    if (one.max != unbounded && (one.opposite = algebra_.opposite_of(contained)) == nullptr)
      algebra_.refuse(errc::unsupported, schemas[i].schema, "maxContains",
                      "the negation of 'contains' is not supported");
    counts.push_back(one);
  }
  const auto max = smallest(schemas, "maxItems");
  if (max) num_places = std::max<std::size_t>(num_places, *max);
  if (counts.size() > max_counted || num_places > max_states) {
    algebra_.refuse(errc::unsupported, schemas[counts.front().at].schema, "contains",
                    "beside others, or beside limits above 1000, it is not supported");
    return "";
  }
  const auto min = largest(schemas, "minItems").value_or(0);
  // A state has the number of items and, for each "contains", the number of items that match it.
  return machine(schemas[counts.front().at].schema, "contains", machine_state(counts.size() + 1, 0),
                 [&](const machine_state& now) {
                   machine_ways out{{}, now[0] >= min};
                   for (std::size_t c = 0; c < counts.size(); ++c)
                     out.may_end = out.may_end && now[c + 1] >= counts[c].min;
                   if (max && now[0] >= *max) return out;
                   for (std::size_t kind = 0; kind < (std::size_t{1} << counts.size()) && !failure();
                        ++kind) {
                     machine_state to = now;
                     to[0] = std::min<std::uint32_t>(now[0] + 1, static_cast<std::uint32_t>(num_places));
                     std::vector<std::size_t> matched;
                     std::vector<schema_ptr> others;
                     bool has_room = true;
                     for (std::size_t c = 0; c < counts.size(); ++c) {
                       if (((kind >> c) & 1U) == 0) {
                         if (counts[c].opposite != nullptr) others.push_back(counts[c].opposite);
                         continue;
                       }
                       matched.push_back(counts[c].at);
                       has_room = has_room && (counts[c].max == unbounded || now[c + 1] < counts[c].max);
                       to[c + 1] = std::min(now[c + 1] + 1, counts[c].limit());
                     }
                     if (!has_room) continue;
                     auto item = item_schemas(schemas, now[0], matched);
                     item.insert(item.end(), others.begin(), others.end());
                     const std::string rule = value(item);
                     if (!rule.empty()) out.items.emplace_back(rule, to);
                   }
                   return out;
                 });
}

std::string schema_writer::unique_array(const conjunction& schemas, schema_ptr from) {
  constexpr std::size_t max_masked = 6;  // up to so many values may come in any order
  constexpr std::size_t max_listed = 64; // up to so many values may come in the order of the schema only
  const auto refuse = [&](std::string_view rule) {
    algebra_.refuse(errc::unsupported, from, "uniqueItems", rule);
    return std::string();
  };
  std::size_t num_prefix = 0;
  for (const auto& [schema, parent] : schemas) {
    if (const auto* prefix = member(schema, "prefixItems"))
      num_prefix = std::max(num_prefix, prefix->get_array().size());
    if (member(schema, "contains") != nullptr) return refuse("beside 'contains' it is not supported");
  }
  if (num_prefix > max_listed) return refuse("beside so many 'prefixItems' it is not supported");
  // The possible values of the items at each place of "prefixItems", and of all items after these places.
  std::map<std::string, std::size_t> numbers;
  std::vector<std::vector<std::pair<std::string, std::size_t>>> places; // rule and number of a value
  const auto max = smallest(schemas, "maxItems");
  for (std::size_t i = 0; i <= num_prefix; ++i) {
    auto& place = places.emplace_back();
    if (max && i >= *max) continue;
    const auto values = finite_values(item_schemas(schemas, i, {}));
    if (failure()) return "";
    if (!values) return refuse("it is supported for items of which 'const' or 'enum' lists the values");
    for (const auto& [text, rule] : *values)
      place.emplace_back(rule, numbers.emplace(text, numbers.size()).first->second);
  }
  if (numbers.size() > max_listed) return refuse("of more than 64 values it is not supported");
  const bool any_order = numbers.size() <= max_masked;
  if (!any_order && num_prefix > 0) return refuse("beside 'prefixItems' of many values it is not supported");
  const auto min = largest(schemas, "minItems").value_or(0);
  // A state has the number of items and the used values. With any order, the used values are a bit mask;
  // otherwise they are a number of leading values of the list.
  return machine(from, "uniqueItems", {0, 0}, [&](const machine_state& now) {
    machine_ways out{{}, now[0] >= min};
    if (max && now[0] >= *max) return out;
    for (const auto& [rule, number] : places[std::min<std::size_t>(now[0], num_prefix)]) {
      const auto value_number = static_cast<std::uint32_t>(number);
      if (any_order ? ((now[1] >> value_number) & 1U) != 0 : value_number < now[1]) continue;
      // This line counts all items: each of them uses a value, so the number of states stays small.
      const std::uint32_t count = now[0] + 1;
      out.items.emplace_back(
          rule, machine_state{count, any_order ? now[1] | (1U << value_number) : value_number + 1});
    }
    return out;
  });
}

std::optional<std::map<std::string, std::string>>
schema_writer::finite_values(const std::vector<schema_ptr>& roots) {
  std::map<std::string, std::string> out;
  for (const auto& schemas : algebra_.alternatives(roots)) {
    std::vector<const json::value*> candidates;
    static const json::array simple{nullptr, true, false};
    for (const auto& [schema, parent] : schemas) {
      if (const auto* only = member(schema, "const")) candidates = {only};
      if (const auto* listed = member(schema, "enum"); listed != nullptr && candidates.empty())
        for (const auto& one : listed->get_array()) candidates.push_back(&one);
    }
    constexpr type_set simple_types = null_type | boolean_type;
    if (candidates.empty()) {
      if ((algebra_.types_of(schemas) & ~simple_types) != 0) return std::nullopt;
      for (const auto& one : simple) candidates.push_back(&one);
    }
    for (const auto* one : candidates)
      if (!failure() && obeys(*one, schemas)) out.emplace(canonical_text(*one), literal(*one, false));
  }
  return out;
}

} // namespace paceline::grammar
