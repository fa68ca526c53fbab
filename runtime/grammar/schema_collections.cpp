// Rules for arrays and objects.
#include "runtime/grammar/repetitions.hpp"
#include "runtime/grammar/schema_keywords.hpp"
#include "runtime/grammar/schema_writer.hpp"

#include <algorithm>

namespace paceline::grammar {

namespace {

namespace json = boost::json;

constexpr std::uint32_t max_count = 10'000;
constexpr std::size_t max_counted_rules = 2'000;

std::size_t prefix_size(const conjunct& one) {
  const auto* prefix = one.schema->get_object().if_contains("prefixItems");
  return prefix == nullptr ? 0 : prefix->get_array().size();
}

} // namespace

std::string schema_writer::repeated(const std::string& what, std::uint32_t min,
                                    std::optional<std::uint32_t> max) {
  return grammar::repeated("(" + what + ")", min, max,
                           [&](const std::string& body) { return add_rule("i", body); });
}

std::vector<schema_ptr> schema_writer::item_schemas(const conjunction& schemas, std::size_t index,
                                                    const std::vector<std::size_t>& matched) {
  std::vector<schema_ptr> out;
  constexpr std::size_t schemas_per_spent = 8;
  if (schemas.empty() || !algebra_.spend(schemas.size() / schemas_per_spent, schemas.front().schema))
    return out;
  std::vector<bool> is_evaluated(schemas.size(), false);
  for (std::size_t i = 0; i < schemas.size(); ++i) {
    const auto& keywords = schemas[i].schema->get_object();
    const auto* items = keywords.if_contains("items");
    is_evaluated[i] = prefix_size(schemas[i]) > index || items != nullptr;
    if (prefix_size(schemas[i]) > index)
      out.push_back(&keywords.at("prefixItems").get_array()[index]);
    else if (items != nullptr)
      out.push_back(items);
  }
  for (const std::size_t i : matched) {
    out.push_back(member(schemas[i].schema, "contains"));
    is_evaluated[i] = true;
  }
  const auto rest = unevaluated(schemas, "unevaluatedItems", is_evaluated);
  out.insert(out.end(), rest.begin(), rest.end());
  return out;
}

std::string schema_writer::array(const conjunction& schemas) {
  std::uint32_t min = largest(schemas, "minItems").value_or(0);
  std::optional<std::uint32_t> max = smallest(schemas, "maxItems");
  std::size_t num_prefix = 0;
  bool is_counted = false;
  for (const auto& one : schemas) {
    num_prefix = std::max(num_prefix, prefix_size(one));
    is_counted = is_counted || member(one.schema, "contains") != nullptr;
    const auto* unique = member(one.schema, "uniqueItems");
    if (unique != nullptr && unique->get_bool() && max.value_or(2) > 1)
      return unique_array(schemas, one.schema);
  }
  if (is_counted) return counted_array(schemas);
  if (min > max_count)
    algebra_.refuse(errc::unsupported, schemas.front().schema, "minItems", "above 10000 it is not supported");
  if (max) max = std::min(*max, max_count);
  if (max && *max < num_prefix) num_prefix = *max;
  std::vector<std::string> items;
  for (std::size_t i = 0; i < num_prefix && (items.empty() || !items.back().empty()); ++i)
    items.push_back(value(item_schemas(schemas, i, {})));
  std::string rest;
  if (!items.empty() && items.back().empty())
    items.pop_back(), max = static_cast<std::uint32_t>(items.size());
  if (!max || *max > items.size()) rest = value(item_schemas(schemas, items.size(), {}));
  if (rest.empty())
    max = static_cast<std::uint32_t>(std::min<std::size_t>(items.size(), max.value_or(max_count)));
  if (failure() || (max && min > *max)) return "";
  const auto size = static_cast<std::uint32_t>(items.size());
  const auto minus = [](std::uint32_t a, std::uint32_t b) { return a > b ? a - b : 0; };
  std::string tail;
  if (!rest.empty()) {
    std::optional<std::uint32_t> most;
    if (max) most = *max - size;
    const std::uint32_t least = minus(min, size);
    tail = size > 0 ? repeated("\",\" ws " + rest, least, most)
                    : rest + " " +
                          repeated("\",\" ws " + rest, minus(least, 1),
                                   most ? std::optional(*most - 1) : std::nullopt) +
                          " ws";
    if (size == 0 && min == 0) tail = "(" + tail + ")?";
  }
  for (std::uint32_t i = size; i-- > 0;) {
    std::string body = (i > 0 ? "\",\" ws " : "") + items[i] + " " + tail + (i == 0 ? " ws" : "");
    tail = add_rule("a", i >= min ? "(" + body + ")?" : body);
  }
  return "\"[\" ws " + tail + " \"]\"";
}

std::string schema_writer::object(const conjunction& schemas) {
  const auto keys = named_keys(schemas);
  std::vector<object_member> named;
  std::uint32_t num_required = 0;
  constexpr std::size_t bytes_per_spent = 64;
  for (const auto& key : keys) {
    if (!algebra_.spend(key.size() / bytes_per_spent, schemas.front().schema)) return "";
    const bool is_required = algebra_.is_required(schemas, key);
    const std::string rule = value(algebra_.member_schemas(schemas, key));
    if (failure()) return "";
    if (rule.empty() && is_required) return "";
    if (rule.empty()) continue;
    num_required += is_required ? 1 : 0;
    named.push_back({add_rule("p", json_text_literal(key) + " \":\" ws " + rule), is_required});
  }
  const std::string other = other_member(schemas, keys);
  const std::uint32_t min = largest(schemas, "minProperties").value_or(0);
  const std::uint32_t max = smallest(schemas, "maxProperties").value_or(unbounded);
  // The rules allow a name that no schema lists to occur twice in one object, and then it counts as one
  // member. So the rules can guarantee at most one such member.
  if (!other.empty() && min > num_required + 1)
    algebra_.refuse(errc::unsupported, schemas.front().schema, "minProperties",
                    "more than one member beyond the required ones is not supported");
  if (failure() || num_required > max) return "";
  return members(named, other, min, max);
}

std::string schema_writer::members(const std::vector<object_member>& named, const std::string& other,
                                   std::uint32_t min, std::uint32_t max) {
  const auto size = named.size();
  if (other.empty() && max >= size) max = unbounded;
  // Members are counted only up to the largest number that makes a difference.
  const std::uint32_t limit = max == unbounded ? min : std::min(max, max_count);
  if (static_cast<std::size_t>(limit + 1) * (size + 1) > max_counted_rules) {
    algebra_.refuse(errc::unsupported, algebra_.document().root(), "",
                    "limits of the number of members are too large");
    return "";
  }
  const std::string prefix = new_name("s") + "_";
  const auto name = [&](std::size_t index, std::uint32_t count, bool is_first) {
    return prefix + std::to_string(index) + "_" + std::to_string(count) + (is_first ? "_f" : "");
  };
  std::set<std::string> is_possible; // names of rules that match something
  const auto write = [&](std::size_t index, std::uint32_t count, bool is_first) {
    const std::string separator = is_first ? "" : "\",\" ws ";
    const std::uint32_t next = max == unbounded ? std::min(count + 1, limit) : count + 1;
    const bool has_room = max == unbounded || count < limit;
    std::string body;
    const auto put = [&](const std::string& one) { body += (body.empty() ? "" : " | ") + one; };
    if (index < size) {
      const auto behind = name(index + 1, next, false);
      if (has_room && is_possible.contains(behind)) put(separator + named[index].rule + " " + behind);
      const auto without = name(index + 1, count, is_first);
      if (!named[index].is_required && is_possible.contains(without)) put(without);
    } else {
      if (count >= min) put(is_first ? "\"\"" : "ws");
      if (!other.empty() && has_room) {
        const auto behind = name(index, next, false);
        if (next == count || is_possible.contains(behind)) put(separator + other + " " + behind);
      }
    }
    if (body.empty()) return;
    new_name("");
    is_possible.insert(name(index, count, is_first));
    define(name(index, count, is_first), body);
  };
  for (std::size_t index = size + 1; index-- > 0;) {
    for (std::uint32_t count = limit + 1; count-- > 0;) write(index, count, false);
    write(index, 0, true);
  }
  const auto first = name(0, 0, true);
  return is_possible.contains(first) ? "\"{\" ws " + first + " \"}\"" : "";
}

} // namespace paceline::grammar
