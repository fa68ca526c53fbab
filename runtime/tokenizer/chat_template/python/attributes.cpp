#include "runtime/tokenizer/chat_template/python/attributes.hpp"

#include "runtime/tokenizer/chat_template/python/binding.hpp"
#include "runtime/tokenizer/chat_template/python/methods.hpp"
#include "runtime/tokenizer/chat_template/python/operators.hpp"
#include "runtime/tokenizer/chat_template/python/printing.hpp"
#include "runtime/tokenizer/chat_template/python/unicode.hpp"

#include <algorithm>

namespace paceline::tokenizer::jinja {

namespace {

std::optional<value> find_method(runtime& rt, const value& self, std::span<const method_entry> table,
                                 std::string_view name) {
  const auto found =
      std::find_if(table.begin(), table.end(), [&](const auto& entry) { return entry.name == name; });
  if (found == table.end()) return std::nullopt;
  if (found->mutates && !rt.options.allow_mutation)
    return value::undefined(undefined_reason::unsafe_attribute, found->name, self.type());
  return bound_method(rt, self, found->name, found->call);
}

std::optional<value> number_attribute(runtime& rt, const value& self, std::string_view name) {
  const value whole = self.is_integral() ? value::of_integer(self.integer()) : self;
  if (name == "real") return whole;
  if (name == "imag") return self.is_integral() ? value::of_integer(0) : value::of_real(0);
  if (self.is_integral() && name == "numerator") return whole;
  if (self.is_integral() && name == "denominator") return value::of_integer(1);
  return find_method(rt, self, number_methods(), name);
}

std::optional<value> tuple_attribute(runtime& rt, const value& self, std::string_view name) {
  const auto& tuple = self.as<list_object>();
  if (tuple.is_group && name == "grouper") return tuple.items[0];
  if (tuple.is_group && name == "list") return tuple.items[1];
  return find_method(rt, self, tuple_methods(), name);
}

std::optional<value> range_attribute(runtime& rt, const value& self, std::string_view name) {
  const auto& range = self.as<range_object>();
  if (name == "start") return value::of_integer(range.start);
  if (name == "stop") return value::of_integer(range.stop);
  if (name == "step") return value::of_integer(range.step);
  return find_method(rt, self, range_methods(), name);
}

std::optional<value> namespace_attribute(runtime& rt, const value& self, std::string_view name) {
  const value* found = self.as<namespace_object>().attributes->find(rt, name);
  if (found == nullptr) return std::nullopt;
  if (name.starts_with('_')) return value::undefined(undefined_reason::unsafe_attribute, name, self.type());
  return *found;
}

/// Attributes of every Python object. The sandbox hides them, and with them a dict's items of the same name.
bool is_hidden(std::string_view name) {
  static constexpr std::string_view hidden[] = {
      "__class__",   "__contains__", "__delattr__",   "__delitem__",     "__dir__",
      "__doc__",     "__eq__",       "__format__",    "__ge__",          "__getattribute__",
      "__getitem__", "__gt__",       "__hash__",      "__init__",        "__init_subclass__",
      "__iter__",    "__le__",       "__len__",       "__lt__",          "__ne__",
      "__new__",     "__reduce__",   "__reduce_ex__", "__repr__",        "__setattr__",
      "__setitem__", "__sizeof__",   "__str__",       "__subclasshook__"};
  return std::find(std::begin(hidden), std::end(hidden), name) != std::end(hidden);
}

/// Position `index` of a sequence of `length`, counted from the end when negative; nothing when outside.
std::optional<std::size_t> position(wide_int index, wide_int length) {
  if (index < 0) index += length;
  if (index < 0 || index >= length) return std::nullopt;
  return static_cast<std::size_t>(index);
}

std::optional<value> character_item(runtime& rt, const value& text, wide_int index) {
  const std::string_view characters = text.text();
  rt.memory.scan(characters.size());
  const bool ascii = is_ascii(characters);
  const auto length = ascii ? characters.size() : num_characters(characters);
  const auto at = position(index, static_cast<wide_int>(length));
  if (!at) return std::nullopt;
  const std::size_t offset = ascii ? *at : byte_offset(characters, *at);
  return value::of_text(characters.substr(offset, character_at(characters, offset).size), text.markup());
}

/// `object[key]` without falling back to attributes; nothing where Python raises TypeError or LookupError.
std::optional<value> own_item(runtime& rt, const value& object, const value& key) {
  switch (object.type()) {
  case value_type::undefined:
    require_defined(rt, object);
    return std::nullopt;
  case value_type::dict: {
    const bool unhashable =
        key.is(value_type::list) || key.is(value_type::dict) || key.is(value_type::dict_view);
    const value* found = unhashable ? nullptr : object.as<dict_object>().find(rt, key);
    return found == nullptr ? std::nullopt : std::optional<value>(*found);
  }
  case value_type::list:
  case value_type::tuple: {
    if (!key.is_integral()) return std::nullopt;
    const auto& items = object.as<list_object>().items;
    const auto at = position(key.integer(), static_cast<wide_int>(items.size()));
    return at ? std::optional<value>(items[*at]) : std::nullopt;
  }
  case value_type::string:
    return key.is_integral() ? character_item(rt, object, key.integer()) : std::nullopt;
  case value_type::range: {
    if (!key.is_integral()) return std::nullopt;
    const auto& range = object.as<range_object>();
    const auto at = position(key.integer(), range.size());
    return at ? std::optional<value>(value::of_integer(range.start + static_cast<wide_int>(*at) * range.step))
              : std::nullopt;
  }
  default:
    return std::nullopt;
  }
}

value slice_of_text(runtime& rt, const value& object, std::int64_t start, std::int64_t stop,
                    std::int64_t step) {
  const std::string_view text = object.text();
  if (step == 1) {
    const std::size_t first = byte_offset(text, static_cast<std::size_t>(start));
    const std::string_view rest = text.substr(first);
    const auto count = static_cast<std::size_t>(std::max<std::int64_t>(stop - start, 0));
    return value::of_text(rest.substr(0, byte_offset(rest, count)), object.markup());
  }
  rt.memory.require(text.size() * sizeof(std::size_t));
  std::vector<std::size_t> offsets;
  for_each_character(text, [&](character, std::size_t at) { offsets.push_back(at); });
  std::string out;
  for (std::int64_t i = start; step > 0 ? i < stop : i > stop; i += step) {
    const std::size_t at = offsets[static_cast<std::size_t>(i)];
    out += text.substr(at, character_at(text, at).size);
  }
  return rt.memory.keep(std::move(out), object.markup());
}

value slice_of_list(runtime& rt, const value& object, std::int64_t start, std::int64_t stop,
                    std::int64_t step) {
  const auto& items = object.as<list_object>().items;
  rt.memory.require(items.size() * sizeof(value));
  std::vector<value> taken;
  for (std::int64_t i = start; step > 0 ? i < stop : i > stop; i += step)
    taken.push_back(items[static_cast<std::size_t>(i)]);
  rt.memory.step(taken.size() + 1);
  return object.is(value_type::list) ? rt.memory.list(std::move(taken)) : rt.memory.tuple(std::move(taken));
}

value slice_of_range(runtime& rt, const range_object& range, std::int64_t start, std::int64_t stop,
                     std::int64_t step) {
  auto& part = rt.memory.make<range_object>();
  part.start = range.start + static_cast<wide_int>(start) * range.step;
  part.stop = range.start + static_cast<wide_int>(stop) * range.step;
  part.step = range.step * step;
  return value::of_object(value_type::range, &part);
}

std::int64_t slice_index(runtime& rt, const value& index, std::int64_t fallback) {
  if (index.is_none()) return fallback;
  if (!index.is_integral()) {
    require_defined(rt, index);
    fail("slice indices must be integers or None or have an __index__ method");
  }
  return clamp_to_int64(index.integer());
}

} // namespace

std::optional<value> own_attribute(runtime& rt, const value& object, std::string_view name) {
  switch (object.type()) {
  case value_type::undefined:
    require_defined(rt, object);
    return std::nullopt;
  case value_type::string: {
    auto method = find_method(rt, object, string_methods(), name);
    return method ? method : find_method(rt, object, string_search_methods(), name);
  }
  case value_type::list:
    return find_method(rt, object, list_methods(), name);
  case value_type::tuple:
    return tuple_attribute(rt, object, name);
  case value_type::dict:
    if (is_hidden(name)) return value::undefined(undefined_reason::unsafe_attribute, name, object.type());
    return find_method(rt, object, dict_methods(), name);
  case value_type::boolean:
  case value_type::integer:
  case value_type::real:
    return number_attribute(rt, object, name);
  case value_type::range:
    return range_attribute(rt, object, name);
  case value_type::name_space:
    return namespace_attribute(rt, object, name);
  case value_type::missing:
  case value_type::none:
  case value_type::dict_view:
    return std::nullopt;
  default:
    return object.held()->attribute(rt, name);
  }
}

value get_attribute(runtime& rt, const value& object, std::string_view name) {
  if (const auto found = own_attribute(rt, object, name)) return *found;
  if (object.is(value_type::dict))
    if (const value* item = object.as<dict_object>().find(rt, name)) return *item;
  return value::undefined(undefined_reason::attribute, name, object.type());
}

value get_item(runtime& rt, const value& object, const value& key) {
  if (const auto found = own_item(rt, object, key)) return *found;
  if (key.is_string()) {
    if (const auto found = own_attribute(rt, object, key.text())) return *found;
    return value::undefined(undefined_reason::attribute, key.text(), object.type());
  }
  return rt.memory.undefined(std::string(type_name(object)) + " object has no element " + repr(rt, key));
}

value get_slice(runtime& rt, const value& object, const value& start, const value& stop, const value& step) {
  require_defined(rt, object);
  const bool sliceable = object.is_string() || object.is(value_type::list) || object.is(value_type::tuple) ||
                         object.is(value_type::range);
  if (!sliceable) fail("'" + std::string(type_name(object)) + "' object is not subscriptable by a slice");
  const std::int64_t length = clamp_to_int64(*length_of(rt, object));
  const std::int64_t stride = slice_index(rt, step, 1);
  if (stride == 0) fail("slice step cannot be zero");
  const bool forward = stride > 0;
  const auto clamped = [&](std::int64_t index) {
    if (index < 0) index = std::max<std::int64_t>(index + length, forward ? 0 : -1);
    return std::min(index, forward ? length : length - 1);
  };
  const std::int64_t first =
      start.is_none() ? (forward ? 0 : length - 1) : clamped(slice_index(rt, start, 0));
  const std::int64_t last = stop.is_none() ? (forward ? length : -1) : clamped(slice_index(rt, stop, 0));
  // A stride beyond the length reaches one element, so larger ones are reduced to prevent overflow.
  const std::int64_t bounded = std::clamp(stride, -length - 1, length + 1);
  if (object.is_string()) return slice_of_text(rt, object, first, last, bounded);
  if (object.is(value_type::range)) return slice_of_range(rt, object.as<range_object>(), first, last, stride);
  return slice_of_list(rt, object, first, last, bounded);
}

} // namespace paceline::tokenizer::jinja
