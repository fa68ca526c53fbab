#include "runtime/tokenizer/chat_template/evaluation/globals.hpp"

#include "runtime/tokenizer/chat_template/evaluation/date_text.hpp"
#include "runtime/tokenizer/chat_template/python/binding.hpp"
#include "runtime/tokenizer/chat_template/python/methods.hpp"
#include "runtime/tokenizer/chat_template/python/operators.hpp"
#include "runtime/tokenizer/chat_template/python/printing.hpp"

namespace paceline::tokenizer::jinja {

namespace {

/// The sandbox's limit on the elements of a range.
constexpr wide_int max_range = 100000;

value range(runtime& rt, const call_arguments& arguments) {
  const auto bound = bind("range", arguments, {"", "", ""}, 1);
  auto& made = rt.memory.make<range_object>();
  // 64-bit bounds, so that sizes and positions cannot wrap.
  const auto bounded = [&](std::size_t i, wide_int fallback) {
    const wide_int number = bound.integer(rt, i, fallback);
    if (number != clamp_to_int64(number)) fail("range() bounds are limited to 64 bits");
    return number;
  };
  made.start = bound.given(1) ? bounded(0, 0) : 0;
  made.stop = bound.given(1) ? bounded(1, 0) : bounded(0, 0);
  made.step = bounded(2, 1);
  if (made.step == 0) fail("range() arg 3 must not be zero");
  if (rt.options.limit_ranges && made.size() > max_range)
    fail("Range too big. The sandbox blocks ranges larger than MAX_RANGE (100000).");
  return value::of_object(value_type::range, &made);
}

dict_object& make_dict(runtime& rt, const call_arguments& arguments) {
  if (arguments.positional.size() > 1) fail("dict expected at most 1 argument");
  auto& made = rt.memory.make<dict_object>();
  if (!arguments.positional.empty()) update_dict(rt, made, arguments.positional[0]);
  for (const auto& [name, item] : arguments.named) made.set(rt, value::of_text(name), item);
  return made;
}

value dict(runtime& rt, const call_arguments& arguments) { return rt.memory.dict(make_dict(rt, arguments)); }

value name_space(runtime& rt, const call_arguments& arguments) {
  auto& attributes = make_dict(rt, arguments);
  auto& made = rt.memory.make<namespace_object>();
  made.attributes = &attributes;
  return value::of_object(value_type::name_space, &made);
}

value cycler(runtime& rt, const call_arguments& arguments) {
  if (!arguments.named.empty()) fail("cycler() got an unexpected keyword argument");
  if (arguments.positional.empty()) fail("at least one item has to be provided");
  const value items = rt.memory.tuple(arguments.positional);
  auto& made = rt.memory.make<cycler_object>();
  made.items = &items.as<list_object>();
  return value::of_object(value_type::cycler, &made);
}

value joiner(runtime& rt, const call_arguments& arguments) {
  const auto bound = bind("joiner", arguments, {"sep"});
  auto& made = rt.memory.make<joiner_object>();
  made.separator = bound.get(0, value::of_text(", "));
  return value::of_object(value_type::joiner, &made);
}

value raise_exception(runtime& rt, const call_arguments& arguments) {
  const auto bound = bind("raise_exception", arguments, {"message"}, 1);
  fail(str(rt, bound[0]));
}

value strftime_now(runtime& rt, const call_arguments& arguments) {
  const auto bound = bind("strftime_now", arguments, {"format"}, 1);
  return rt.memory.keep(date_text(bound.text(rt, 0), rt.limits.clock()));
}

value lipsum(runtime&, const call_arguments&) {
  throw failure{errc::unsupported, "lipsum is not offered in chat templates", 0};
}

struct global_entry {
  std::string_view name;
  native_function call = nullptr;
  bool of_chat = false; ///< true: transformers adds it to the globals of jinja2
};

constexpr global_entry global_entries[] = {
    {"range", range},
    {"dict", dict},
    {"namespace", name_space},
    {"cycler", cycler},
    {"joiner", joiner},
    {"lipsum", lipsum},
    {"raise_exception", raise_exception, true},
    {"strftime_now", strftime_now, true},
};

value next_item(runtime&, const value& self, const call_arguments& arguments) {
  (void)bind("next", arguments, {});
  auto& cycle = self.as<cycler_object>();
  const value item = cycle.items->items[cycle.position];
  cycle.position = (cycle.position + 1) % cycle.items->items.size();
  return item;
}

value reset(runtime&, const value& self, const call_arguments& arguments) {
  (void)bind("reset", arguments, {});
  self.as<cycler_object>().position = 0;
  return value::none();
}

} // namespace

std::optional<value> find_global(runtime& rt, std::string_view name) {
  for (const global_entry& entry : global_entries) {
    if (entry.name != name || (entry.of_chat && !rt.options.chat_functions)) continue;
    auto& made = rt.memory.make<function_object>();
    made.name = entry.name;
    made.call = entry.call;
    return value::of_object(value_type::function, &made);
  }
  return std::nullopt;
}

std::optional<value> cycler_object::attribute(runtime& rt, std::string_view name) {
  const value self = value::of_object(value_type::cycler, this);
  if (name == "current") return items->items[position];
  if (name == "items") return value::of_object(value_type::tuple, items);
  if (name == "pos") return value::of_integer(static_cast<wide_int>(position));
  if (name == "next") return bound_method(rt, self, "next", next_item);
  if (name == "reset") return bound_method(rt, self, "reset", reset);
  return std::nullopt;
}

std::optional<value> joiner_object::attribute(runtime&, std::string_view name) {
  if (name == "sep") return separator;
  if (name == "used") return value::of(used);
  return std::nullopt;
}

} // namespace paceline::tokenizer::jinja
