#include "runtime/tokenizer/chat_template/python/binding.hpp"
#include "runtime/tokenizer/chat_template/python/iteration.hpp"
#include "runtime/tokenizer/chat_template/python/methods.hpp"
#include "runtime/tokenizer/chat_template/python/operators.hpp"
#include "runtime/tokenizer/chat_template/python/printing.hpp"

#include <algorithm>
#include <cmath>

/// Methods of list, tuple, dict, range and the numbers.
namespace paceline::tokenizer::jinja {

namespace {

std::vector<value>& items_of(const value& self) { return self.as<list_object>().items; }

value count_item(runtime& rt, const value& self, const call_arguments& arguments) {
  const auto bound = bind("count", arguments, {""}, 1);
  wide_int found = 0;
  for (const value& item : items_of(self))
    if (identical(rt, item, bound[0]) || equal(rt, item, bound[0])) ++found;
  return value::of_integer(found);
}

value index_of_item(runtime& rt, const value& self, const call_arguments& arguments) {
  const auto bound = bind("index", arguments, {"", "", ""}, 1);
  const auto& items = items_of(self);
  const auto [start, stop] = clamp_slice(rt, bound.get(1, value::of_integer(0)), bound.get(2, value::none()),
                                         static_cast<std::int64_t>(items.size()));
  for (std::int64_t i = start; i < stop; ++i) {
    const value& item = items[static_cast<std::size_t>(i)];
    if (identical(rt, item, bound[0]) || equal(rt, item, bound[0])) return value::of_integer(i);
  }
  fail(repr(rt, bound[0]) + " is not in list");
}

value copy_list(runtime& rt, const value& self, const call_arguments& arguments) {
  (void)bind("copy", arguments, {});
  return rt.memory.list(items_of(self));
}

value append(runtime& rt, const value& self, const call_arguments& arguments) {
  const auto bound = bind("append", arguments, {""}, 1);
  rt.memory.charge(2 * sizeof(value));
  items_of(self).push_back(bound[0]);
  return value::none();
}

value extend(runtime& rt, const value& self, const call_arguments& arguments) {
  const auto bound = bind("extend", arguments, {""}, 1);
  const std::vector<value> more = collect(rt, bound[0]);
  rt.memory.charge(2 * more.size() * sizeof(value));
  items_of(self).insert(items_of(self).end(), more.begin(), more.end());
  return value::none();
}

value insert(runtime& rt, const value& self, const call_arguments& arguments) {
  const auto bound = bind("insert", arguments, {"", ""}, 2);
  auto& items = items_of(self);
  const auto length = static_cast<wide_int>(items.size());
  wide_int at = bound.integer(rt, 0);
  if (at < 0) at = std::max<wide_int>(at + length, 0);
  rt.memory.charge(2 * sizeof(value));
  rt.memory.step(items.size() + 1);
  items.insert(items.begin() + static_cast<std::ptrdiff_t>(std::min(at, length)), bound[1]);
  return value::none();
}

value pop(runtime& rt, const value& self, const call_arguments& arguments) {
  const auto bound = bind("pop", arguments, {""});
  auto& items = items_of(self);
  if (items.empty()) fail("pop from empty list");
  const auto length = static_cast<wide_int>(items.size());
  wide_int at = bound.integer(rt, 0, -1);
  if (at < 0) at += length;
  if (at < 0 || at >= length) fail("pop index out of range");
  const auto position = items.begin() + static_cast<std::ptrdiff_t>(at);
  const value taken = *position;
  rt.memory.step(items.size());
  items.erase(position);
  return taken;
}

value remove_item(runtime& rt, const value& self, const call_arguments& arguments) {
  const auto bound = bind("remove", arguments, {""}, 1);
  auto& items = items_of(self);
  for (auto it = items.begin(); it != items.end(); ++it) {
    if (!identical(rt, *it, bound[0]) && !equal(rt, *it, bound[0])) continue;
    items.erase(it);
    return value::none();
  }
  fail("list.remove(x): x not in list");
}

value clear_list(runtime&, const value& self, const call_arguments& arguments) {
  (void)bind("clear", arguments, {});
  items_of(self).clear();
  return value::none();
}

value reverse_list(runtime& rt, const value& self, const call_arguments& arguments) {
  (void)bind("reverse", arguments, {});
  rt.memory.step(items_of(self).size() + 1);
  std::reverse(items_of(self).begin(), items_of(self).end());
  return value::none();
}

value sort_list(runtime& rt, const value& self, const call_arguments& arguments) {
  const auto bound = bind("sort", arguments, {"key", "reverse"});
  if (!arguments.positional.empty()) fail("sort() takes no positional arguments");
  if (bound.has(0)) fail("sort() with a key is not offered");
  items_of(self) = sorted_by(rt, items_of(self), items_of(self), bound.flag(rt, 1));
  return value::none();
}

template <dict_view_object::part part>
value view(runtime& rt, const value& self, const call_arguments& arguments) {
  (void)bind("the method", arguments, {});
  auto& made = rt.memory.make<dict_view_object>();
  made.dict = &self.as<dict_object>();
  made.shows = part;
  return value::of_object(value_type::dict_view, &made);
}

value get(runtime& rt, const value& self, const call_arguments& arguments) {
  const auto bound = bind("get", arguments, {"", ""}, 1);
  const value* found = self.as<dict_object>().find(rt, bound[0]);
  return found != nullptr ? *found : bound.get(1, value::none());
}

value copy_dict(runtime& rt, const value& self, const call_arguments& arguments) {
  (void)bind("copy", arguments, {});
  auto& made = rt.memory.make<dict_object>();
  update_dict(rt, made, self);
  return rt.memory.dict(made);
}

value update(runtime& rt, const value& self, const call_arguments& arguments) {
  if (arguments.positional.size() > 1) fail("update expected at most 1 argument");
  if (!arguments.positional.empty()) update_dict(rt, self.as<dict_object>(), arguments.positional[0]);
  for (const auto& [key, item] : arguments.named) self.as<dict_object>().set(rt, value::of_text(key), item);
  return value::none();
}

value set_default(runtime& rt, const value& self, const call_arguments& arguments) {
  const auto bound = bind("setdefault", arguments, {"", ""}, 1);
  auto& dict = self.as<dict_object>();
  if (const value* found = dict.find(rt, bound[0])) return *found;
  dict.set(rt, bound[0], bound.get(1, value::none()));
  return bound.get(1, value::none());
}

value pop_key(runtime& rt, const value& self, const call_arguments& arguments) {
  const auto bound = bind("pop", arguments, {"", ""}, 1);
  auto& dict = self.as<dict_object>();
  const value* found = dict.find(rt, bound[0]);
  if (found == nullptr && !bound.given(1)) fail("KeyError: " + repr(rt, bound[0]));
  if (found == nullptr) return bound[1];
  const value taken = *found;
  (void)dict.erase(rt, bound[0]);
  return taken;
}

value pop_last(runtime& rt, const value& self, const call_arguments& arguments) {
  (void)bind("popitem", arguments, {});
  auto& dict = self.as<dict_object>();
  if (dict.size() == 0) fail("popitem(): dictionary is empty");
  const auto last = dict.entries().back();
  (void)dict.erase(rt, last.first);
  return rt.memory.pair(last.first, last.second);
}

value clear_dict(runtime&, const value& self, const call_arguments& arguments) {
  (void)bind("clear", arguments, {});
  self.as<dict_object>().clear();
  return value::none();
}

value bit_length(runtime&, const value& self, const call_arguments& arguments) {
  (void)bind("bit_length", arguments, {});
  if (!self.is_integral()) fail("'float' object has no attribute 'bit_length'");
  wide_int rest = self.integer() < 0 ? -(self.integer() + 1) + 1 : self.integer();
  wide_int bits = 0;
  for (; rest > 0; rest >>= 1) ++bits;
  return value::of_integer(bits);
}

value conjugate(runtime&, const value& self, const call_arguments& arguments) {
  (void)bind("conjugate", arguments, {});
  return self.is_integral() ? value::of_integer(self.integer()) : self;
}

value is_whole(runtime&, const value& self, const call_arguments& arguments) {
  (void)bind("is_integer", arguments, {});
  if (self.is_integral()) fail("'int' object has no attribute 'is_integer'");
  return value::of(std::isfinite(self.real()) && self.real() == std::floor(self.real()));
}

value count_in_range(runtime& rt, const value& self, const call_arguments& arguments) {
  const auto bound = bind("count", arguments, {""}, 1);
  return value::of_integer(contains(rt, self, bound[0]) ? 1 : 0);
}

value index_in_range(runtime& rt, const value& self, const call_arguments& arguments) {
  const auto bound = bind("index", arguments, {""}, 1);
  if (!contains(rt, self, bound[0])) fail(repr(rt, bound[0]) + " is not in range");
  const auto& range = self.as<range_object>();
  const wide_int number =
      bound[0].is_integral() ? bound[0].integer() : static_cast<wide_int>(bound[0].real());
  return value::of_integer((number - range.start) / range.step);
}

using part = dict_view_object::part;

constexpr method_entry list_entries[] = {
    {"count", count_item},       {"index", index_of_item},
    {"copy", copy_list},         {"append", append, true},
    {"extend", extend, true},    {"insert", insert, true},
    {"pop", pop, true},          {"remove", remove_item, true},
    {"clear", clear_list, true}, {"reverse", reverse_list, true},
    {"sort", sort_list, true},
};
constexpr method_entry tuple_entries[] = {{"count", count_item}, {"index", index_of_item}};
constexpr method_entry dict_entries[] = {
    {"get", get},
    {"items", view<part::items>},
    {"keys", view<part::keys>},
    {"values", view<part::values>},
    {"copy", copy_dict},
    {"update", update, true},
    {"setdefault", set_default, true},
    {"pop", pop_key, true},
    {"popitem", pop_last, true},
    {"clear", clear_dict, true},
};
constexpr method_entry number_entries[] = {
    {"bit_length", bit_length}, {"conjugate", conjugate}, {"is_integer", is_whole}};
constexpr method_entry range_entries[] = {{"count", count_in_range}, {"index", index_in_range}};

} // namespace

std::span<const method_entry> list_methods() { return list_entries; }
std::span<const method_entry> tuple_methods() { return tuple_entries; }
std::span<const method_entry> dict_methods() { return dict_entries; }
std::span<const method_entry> number_methods() { return number_entries; }
std::span<const method_entry> range_methods() { return range_entries; }

value bound_method(runtime& rt, const value& self, std::string_view name, native_method call) {
  auto& made = rt.memory.make<method_object>();
  made.name = name;
  made.self = self;
  made.call = call;
  return value::of_object(value_type::method, &made);
}

void update_dict(runtime& rt, dict_object& dict, const value& source) {
  if (source.is(value_type::dict)) {
    const auto entries = source.as<dict_object>().entries(); // a copy: the source may be the dict itself
    for (const auto& [key, item] : entries) dict.set(rt, key, item);
    return;
  }
  value pair;
  for (cursor walk(rt, source); walk.next(rt, pair);) {
    const auto parts = collect(rt, pair);
    if (parts.size() != 2)
      fail("dictionary update sequence element has length " + std::to_string(parts.size()) +
           "; 2 is required");
    dict.set(rt, parts[0], parts[1]);
  }
}

std::pair<std::int64_t, std::int64_t> clamp_slice(runtime& rt, const value& start, const value& stop,
                                                  std::int64_t length) {
  const auto clamped = [&](const value& index, std::int64_t fallback) {
    if (index.is_none()) return fallback;
    const std::int64_t at = clamp_to_int64(require_integer(rt, index, "a slice index"));
    return at < 0 ? std::max<std::int64_t>(at + length, 0) : at;
  };
  return {clamped(start, 0), std::min(clamped(stop, length), length)};
}

std::vector<value> sorted_by(runtime& rt, const std::vector<value>& items, const std::vector<value>& keys,
                             bool reverse) {
  rt.memory.charge(items.size() * (sizeof(value) + sizeof(std::size_t)));
  std::vector<std::size_t> order(items.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return reverse ? less(rt, keys[b], keys[a]) : less(rt, keys[a], keys[b]);
  });
  std::vector<value> sorted;
  sorted.reserve(items.size());
  for (const std::size_t at : order) sorted.push_back(items[at]);
  return sorted;
}

} // namespace paceline::tokenizer::jinja
