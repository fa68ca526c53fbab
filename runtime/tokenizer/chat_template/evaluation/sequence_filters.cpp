#include "runtime/tokenizer/chat_template/evaluation/attribute_path.hpp"
#include "runtime/tokenizer/chat_template/evaluation/filters.hpp"
#include "runtime/tokenizer/chat_template/python/attributes.hpp"
#include "runtime/tokenizer/chat_template/python/binding.hpp"
#include "runtime/tokenizer/chat_template/python/iteration.hpp"
#include "runtime/tokenizer/chat_template/python/methods.hpp"
#include "runtime/tokenizer/chat_template/python/operators.hpp"

#include <algorithm>

/// Filters over sequences: order, groups, sums, first and last.
namespace paceline::tokenizer::jinja {

namespace {

value length(runtime& rt, const value& v, const call_arguments& arguments) {
  (void)bind("length", arguments, {});
  const auto size = length_of(rt, v);
  if (!size) fail("object of type '" + std::string(type_name(v)) + "' has no len()");
  return value::of_integer(*size);
}

value list(runtime& rt, const value& v, const call_arguments& arguments) {
  (void)bind("list", arguments, {});
  return rt.memory.list(collect(rt, v));
}

value first(runtime& rt, const value& v, const call_arguments& arguments) {
  (void)bind("first", arguments, {});
  value item;
  if (cursor(rt, v).next(rt, item)) return item;
  return rt.memory.undefined("No first item, sequence was empty.");
}

bool is_reversible(const value& v) { return is_iterable(v) && !v.is(value_type::iterator); }

value last(runtime& rt, const value& v, const call_arguments& arguments) {
  (void)bind("last", arguments, {});
  if (!is_reversible(v)) fail("'" + std::string(type_name(v)) + "' object is not reversible");
  const auto items = collect(rt, v);
  return items.empty() ? rt.memory.undefined("No last item, sequence was empty.") : items.back();
}

value reverse(runtime& rt, const value& v, const call_arguments& arguments) {
  (void)bind("reverse", arguments, {});
  if (v.is_string()) return get_slice(rt, v, value::none(), value::none(), value::of_integer(-1));
  auto items = collect(rt, v);
  std::reverse(items.begin(), items.end());
  return is_reversible(v) ? rt.memory.iterator(std::move(items), "reversed")
                          : rt.memory.list(std::move(items));
}

/// Keys of a sort by several attributes, as lists, which compare element by element.
std::vector<value> sort_keys(runtime& rt, const std::vector<value>& items, const value& attribute,
                             bool case_sensitive) {
  std::vector<attribute_path> paths;
  if (attribute.is_string()) {
    std::string_view rest = attribute.text();
    for (bool more = true; more;) {
      const std::size_t comma = std::min(rest.find(','), rest.size());
      paths.emplace_back(rt, value::of_text(rest.substr(0, comma)));
      more = comma < rest.size();
      if (more) rest.remove_prefix(comma + 1);
    }
  } else {
    paths.emplace_back(rt, attribute);
  }
  std::vector<value> keys;
  for (const value& item : items) {
    std::vector<value> parts;
    for (const auto& path : paths) parts.push_back(case_key(rt, path.walk(rt, item), case_sensitive));
    keys.push_back(rt.memory.list(std::move(parts)));
  }
  return keys;
}

value sort(runtime& rt, const value& v, const call_arguments& arguments) {
  const auto bound = bind("sort", arguments, {"reverse", "case_sensitive", "attribute"});
  const auto items = collect(rt, v);
  const auto keys = sort_keys(rt, items, bound.get(2, value::none()), bound.flag(rt, 1));
  return rt.memory.list(sorted_by(rt, items, keys, bound.flag(rt, 0)));
}

value dict_sort(runtime& rt, const value& v, const call_arguments& arguments) {
  const auto bound = bind("dictsort", arguments, {"case_sensitive", "by", "reverse"});
  const value by = bound.get(1, value::of_text("key"));
  const bool by_key = by.is_string() && by.text() == "key";
  if (!by_key && !(by.is_string() && by.text() == "value"))
    fail("You can only sort by either \"key\" or \"value\"");
  require_defined(rt, v);
  if (!v.is(value_type::dict)) fail("dictsort needs a mapping");
  std::vector<value> items, keys;
  for (const auto& [key, item] : v.as<dict_object>().entries()) {
    items.push_back(rt.memory.pair(key, item));
    keys.push_back(case_key(rt, by_key ? key : item, bound.flag(rt, 0)));
  }
  return rt.memory.list(sorted_by(rt, items, keys, bound.flag(rt, 2)));
}

template <bool largest>
value extreme(runtime& rt, const value& v, const call_arguments& arguments) {
  const auto bound = bind(largest ? "max" : "min", arguments, {"case_sensitive", "attribute"});
  const attribute_path path(rt, bound.get(1, value::none()));
  const auto key_of = [&](const value& item) { return case_key(rt, path.walk(rt, item), bound.flag(rt, 0)); };
  value best, best_key, item;
  for (cursor walk(rt, v); walk.next(rt, item);) {
    const value key = key_of(item);
    const bool better =
        best.is_missing() || (largest ? less(rt, best_key, key, ">") : less(rt, key, best_key));
    if (!better) continue;
    best = item;
    best_key = key;
  }
  return best.is_missing() ? rt.memory.undefined("No aggregated item, sequence was empty.") : best;
}

value sum(runtime& rt, const value& v, const call_arguments& arguments) {
  const auto bound = bind("sum", arguments, {"attribute", "start"});
  const attribute_path path(rt, bound.get(0, value::none()));
  value total = bound.get(1, value::of_integer(0));
  if (total.is_string()) fail("sum() can't sum strings [use ''.join(seq) instead]");
  value item;
  for (cursor walk(rt, v); walk.next(rt, item);)
    total = binary(rt, binary_operator::add, total, path.walk(rt, item));
  return total;
}

value group_by(runtime& rt, const value& v, const call_arguments& arguments) {
  const auto bound = bind("groupby", arguments, {"attribute", "default", "case_sensitive"}, 1);
  const attribute_path path(rt, bound[0]);
  const value fallback = bound.get(1, value::none());
  const bool case_sensitive = bound.flag(rt, 2);
  const auto key_of = [&](const value& item) {
    return case_key(rt, path.walk(rt, item, fallback), case_sensitive);
  };
  const auto items = collect(rt, v);
  std::vector<value> keys;
  for (const value& item : items) keys.push_back(key_of(item));
  const auto sorted = sorted_by(rt, items, keys, false);

  std::vector<value> groups, members;
  value group_key;
  const auto close_group = [&] {
    if (members.empty()) return;
    const value shown = case_sensitive ? group_key : path.walk(rt, members.front(), fallback);
    const value group = rt.memory.pair(shown, rt.memory.list(std::move(members)));
    group.as<list_object>().is_group = true;
    groups.push_back(group);
    members = {};
  };
  for (const value& item : sorted) {
    const value key = key_of(item);
    if (members.empty() || !equal(rt, key, group_key)) {
      close_group();
      group_key = key;
    }
    members.push_back(item);
  }
  close_group();
  return rt.memory.list(std::move(groups));
}

constexpr filter_entry sequence_entries[] = {
    {"length", length}, {"count", length},       {"list", list},         {"first", first},
    {"last", last},     {"reverse", reverse},    {"sort", sort},         {"dictsort", dict_sort},
    {"sum", sum},       {"min", extreme<false>}, {"max", extreme<true>}, {"groupby", group_by},
};

} // namespace

std::span<const filter_entry> sequence_filters() { return sequence_entries; }

} // namespace paceline::tokenizer::jinja
