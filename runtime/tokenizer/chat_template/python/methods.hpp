#pragma once

#include "runtime/tokenizer/chat_template/python/runtime.hpp"

#include <span>
#include <string_view>

namespace paceline::tokenizer::jinja {

struct method_entry {
  std::string_view name;
  native_method call = nullptr;
  bool mutates = false; ///< refused by the immutable sandbox
};

std::span<const method_entry> string_methods();
std::span<const method_entry> string_search_methods();
std::span<const method_entry> list_methods();
std::span<const method_entry> tuple_methods();
std::span<const method_entry> dict_methods();
std::span<const method_entry> number_methods();
std::span<const method_entry> range_methods();

/// `self.name` as a callable value.
value bound_method(runtime& rt, const value& self, std::string_view name, native_method call);
/// dict.update(source): from a dict, or from an iterable of pairs.
void update_dict(runtime& rt, dict_object& dict, const value& source);
/// Positions `start` and `stop`, clamped to a sequence of `length` elements as in a Python slice with step 1.
std::pair<std::int64_t, std::int64_t> clamp_slice(runtime& rt, const value& start, const value& stop,
                                                  std::int64_t length);
/// sorted(items, key=..., reverse=...): stable; `keys[i]` belongs to `items[i]`.
std::vector<value> sorted_by(runtime& rt, const std::vector<value>& items, const std::vector<value>& keys,
                             bool reverse);

} // namespace paceline::tokenizer::jinja
