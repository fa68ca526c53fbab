#include "runtime/tokenizer/chat_template/python/operators.hpp"

#include "runtime/tokenizer/chat_template/python/iteration.hpp"
#include "runtime/tokenizer/chat_template/python/printing.hpp"
#include "runtime/tokenizer/chat_template/python/unicode.hpp"

#include <cmath>
#include <functional>

namespace paceline::tokenizer::jinja {

namespace {

enum class order : std::uint8_t { less, equal, greater, unordered };

order order_of(const value& a, const value& b) {
  if (a.is_integral() && b.is_integral())
    return a.integer() < b.integer()   ? order::less
           : a.integer() > b.integer() ? order::greater
                                       : order::equal;
  // 64 bits of mantissa: exact for every integer JSON can hold in 64 bits.
  const auto wide = [](const value& v) {
    return v.is_integral() ? static_cast<long double>(v.integer()) : static_cast<long double>(v.real());
  };
  const long double x = wide(a), y = wide(b);
  return x < y ? order::less : x > y ? order::greater : x == y ? order::equal : order::unordered;
}

bool equal_items(runtime& rt, const std::vector<value>& a, const std::vector<value>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!identical(rt, a[i], b[i]) && !equal(rt, a[i], b[i])) return false;
  return true;
}

bool equal_dicts(runtime& rt, const dict_object& a, const dict_object& b) {
  if (a.size() != b.size()) return false;
  for (const auto& [key, item] : a.entries()) {
    const value* other = b.find(rt, key);
    if (other == nullptr || (!identical(rt, item, *other) && !equal(rt, item, *other))) return false;
  }
  return true;
}

bool equal_ranges(const range_object& a, const range_object& b) {
  if (a.size() != b.size()) return false;
  return a.size() == 0 || (a.start == b.start && (a.size() == 1 || a.step == b.step));
}

bool equal_views(runtime& rt, const dict_view_object& a, const dict_view_object& b) {
  using part = dict_view_object::part;
  if (&a == &b) return true;
  if (a.shows == part::values || b.shows == part::values || a.dict->size() != b.dict->size()) return false;
  if (a.shows != b.shows) return false;
  if (a.shows == part::items) return equal_dicts(rt, *a.dict, *b.dict);
  for (const auto& [key, item] : a.dict->entries())
    if (b.dict->find(rt, key) == nullptr) return false;
  return true;
}

bool range_contains(const range_object& range, const value& item) {
  if (!item.is_number()) return false;
  const double real = as_real(item);
  if (item.is(value_type::real) && real != std::floor(real)) return false;
  const wide_int number = item.is_integral() ? item.integer() : static_cast<wide_int>(real);
  if (range.step > 0 ? number < range.start || number >= range.stop
                     : number > range.start || number <= range.stop)
    return false;
  return (number - range.start) % range.step == 0;
}

bool view_contains(runtime& rt, const dict_view_object& view, const value& item) {
  using part = dict_view_object::part;
  if (view.shows == part::keys) return view.dict->find(rt, item) != nullptr;
  if (view.shows == part::items) {
    if (!item.is(value_type::tuple) || item.as<list_object>().items.size() != 2) return false;
    const auto& pair = item.as<list_object>().items;
    const value* found = view.dict->find(rt, pair[0]);
    return found != nullptr && equal(rt, *found, pair[1]);
  }
  for (const auto& [key, held] : view.dict->entries())
    if (identical(rt, held, item) || equal(rt, held, item)) return true;
  return false;
}

bool same_sequence_type(const value& a, const value& b) {
  return a.type() == b.type() && (a.is(value_type::list) || a.is(value_type::tuple));
}

std::size_t mix(std::size_t seed, std::size_t next) {
  return seed ^ (next + 0x9e3779b97f4a7c15ULL + (seed << 6) + (seed >> 2));
}

} // namespace

std::string undefined_message(runtime& rt, const value& v) {
  const auto quoted = [&] { return repr(rt, value::of_text(v.text())); };
  switch (v.reason()) {
  case undefined_reason::variable:
    return quoted() + " is undefined";
  case undefined_reason::attribute:
    return "'" + std::string(type_name(value::of_object(v.owner(), nullptr))) + " object' has no attribute " +
           quoted();
  case undefined_reason::unsafe_attribute:
    return "access to attribute " + quoted() + " of '" +
           std::string(type_name(value::of_object(v.owner(), nullptr))) + "' object is unsafe.";
  case undefined_reason::described:
    break;
  }
  return std::string(v.text());
}

void require_defined(runtime& rt, const value& v) {
  if (v.is_undefined()) fail(undefined_message(rt, v));
}

double as_real(const value& v) noexcept {
  return v.is_integral() ? static_cast<double>(v.integer()) : v.real();
}

wide_int require_integer(runtime& rt, const value& v, std::string_view what) {
  if (v.is_integral()) return v.integer();
  require_defined(rt, v);
  fail(std::string(what) + " must be an integer, not '" + std::string(type_name(v)) + "'");
}

std::string_view require_text(runtime& rt, const value& v, std::string_view what) {
  if (v.is_string()) return v.text();
  require_defined(rt, v);
  fail(std::string(what) + " must be a string, not '" + std::string(type_name(v)) + "'");
}

bool truth(runtime& rt, const value& v) {
  switch (v.type()) {
  case value_type::missing:
  case value_type::undefined:
  case value_type::none:
    return false;
  case value_type::boolean:
  case value_type::integer:
    return v.integer() != 0;
  case value_type::real:
    return v.real() != 0;
  case value_type::string:
    return !v.text().empty();
  default:
    break;
  }
  const auto length = length_of(rt, v);
  return !length || *length != 0;
}

std::optional<wide_int> length_of(runtime& rt, const value& v) {
  switch (v.type()) {
  case value_type::undefined:
    return 0;
  case value_type::string:
    rt.memory.scan(v.text().size());
    return static_cast<wide_int>(num_characters(v.text()));
  case value_type::list:
  case value_type::tuple:
    return static_cast<wide_int>(v.as<list_object>().items.size());
  case value_type::dict:
    return static_cast<wide_int>(v.as<dict_object>().size());
  case value_type::dict_view:
    return static_cast<wide_int>(v.as<dict_view_object>().dict->size());
  case value_type::range:
    return v.as<range_object>().size();
  default:
    return std::nullopt;
  }
}

bool identical(runtime& rt, const value& a, const value& b) {
  if (a.type() != b.type()) return false;
  switch (a.type()) {
  case value_type::missing:
  case value_type::none:
    return true;
  case value_type::undefined:
    return a.text().data() == b.text().data() && a.reason() == b.reason();
  case value_type::boolean:
  case value_type::integer:
    return a.integer() == b.integer();
  case value_type::real:
    return a.real() == b.real();
  case value_type::string:
    rt.memory.scan(std::min(a.text().size(), b.text().size()));
    return a.markup() == b.markup() && a.text() == b.text();
  default:
    return a.held() == b.held();
  }
}

bool equal(runtime& rt, const value& a, const value& b) {
  rt.memory.step();
  if (a.is_number() && b.is_number()) return order_of(a, b) == order::equal;
  if (a.type() != b.type()) return false;
  const nesting_guard guard(rt);
  switch (a.type()) {
  case value_type::undefined:
    return true;
  case value_type::string:
    rt.memory.scan(std::min(a.text().size(), b.text().size()));
    return a.text() == b.text();
  case value_type::list:
  case value_type::tuple:
    return equal_items(rt, a.as<list_object>().items, b.as<list_object>().items);
  case value_type::dict:
    return equal_dicts(rt, a.as<dict_object>(), b.as<dict_object>());
  case value_type::range:
    return equal_ranges(a.as<range_object>(), b.as<range_object>());
  case value_type::dict_view:
    return equal_views(rt, a.as<dict_view_object>(), b.as<dict_view_object>());
  default:
    return identical(rt, a, b);
  }
}

bool less(runtime& rt, const value& a, const value& b, std::string_view symbol) {
  rt.memory.step();
  if (a.is_number() && b.is_number()) return order_of(a, b) == order::less;
  if (a.is_string() && b.is_string()) {
    rt.memory.scan(std::min(a.text().size(), b.text().size()));
    return a.text() < b.text(); // UTF-8 bytes have the order of code points
  }
  if (same_sequence_type(a, b)) {
    const nesting_guard guard(rt);
    const auto &x = a.as<list_object>().items, &y = b.as<list_object>().items;
    for (std::size_t i = 0; i < x.size() && i < y.size(); ++i)
      if (!identical(rt, x[i], y[i]) && !equal(rt, x[i], y[i])) return less(rt, x[i], y[i], symbol);
    return x.size() < y.size();
  }
  require_defined(rt, a);
  require_defined(rt, b);
  fail("'" + std::string(symbol) + "' not supported between instances of '" + std::string(type_name(a)) +
       "' and '" + std::string(type_name(b)) + "'");
}

bool contains(runtime& rt, const value& container, const value& item) {
  rt.memory.step();
  switch (container.type()) {
  case value_type::undefined:
    return false;
  case value_type::string:
    rt.memory.scan(container.text().size());
    return container.text().find(require_text(rt, item, "the left side of 'in <string>'")) !=
           std::string_view::npos;
  case value_type::list:
  case value_type::tuple:
    for (const value& held : container.as<list_object>().items)
      if (identical(rt, held, item) || equal(rt, held, item)) return true;
    return false;
  case value_type::dict:
    return container.as<dict_object>().find(rt, item) != nullptr;
  case value_type::dict_view:
    return view_contains(rt, container.as<dict_view_object>(), item);
  case value_type::range:
    return range_contains(container.as<range_object>(), item);
  case value_type::iterator: {
    value held;
    for (cursor walk(rt, container); walk.next(rt, held);)
      if (identical(rt, held, item) || equal(rt, held, item)) return true;
    return false;
  }
  default:
    fail("argument of type '" + std::string(type_name(container)) + "' is not iterable");
  }
}

bool compare(runtime& rt, comparison op, const value& a, const value& b) {
  const bool numbers = a.is_number() && b.is_number();
  switch (op) {
  case comparison::equal:
    return equal(rt, a, b);
  case comparison::not_equal:
    return !equal(rt, a, b);
  case comparison::less:
    return less(rt, a, b, "<");
  case comparison::greater:
    return less(rt, b, a, ">");
  case comparison::less_equal:
    if (numbers) return order_of(a, b) == order::less || order_of(a, b) == order::equal;
    return !less(rt, b, a, "<=");
  case comparison::greater_equal:
    if (numbers) return order_of(a, b) == order::greater || order_of(a, b) == order::equal;
    return !less(rt, a, b, ">=");
  case comparison::in:
    return contains(rt, b, a);
  case comparison::not_in:
    return !contains(rt, b, a);
  }
  return false;
}

std::size_t hash_of(runtime& rt, const value& v) {
  rt.memory.step();
  const nesting_guard guard(rt);
  switch (v.type()) {
  case value_type::boolean:
  case value_type::integer:
  case value_type::real:
    return std::hash<double>{}(as_real(v)); // equal numbers of any type share their hash
  case value_type::string:
    rt.memory.scan(v.text().size());
    return std::hash<std::string_view>{}(v.text());
  case value_type::none:
    return 0x4e6f6e65;
  case value_type::missing:
  case value_type::undefined:
    return 0x556e6465;
  case value_type::tuple: {
    std::size_t seed = 0x7475706c;
    for (const value& item : v.as<list_object>().items) seed = mix(seed, hash_of(rt, item));
    return seed;
  }
  case value_type::range:
    return std::hash<double>{}(static_cast<double>(v.as<range_object>().size()));
  case value_type::list:
  case value_type::dict:
  case value_type::dict_view:
    fail("unhashable type: '" + std::string(type_name(v)) + "'");
  default:
    return std::hash<const void*>{}(v.held());
  }
}

} // namespace paceline::tokenizer::jinja
