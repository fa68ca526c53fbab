#include "runtime/tokenizer/chat_template/evaluation/filters.hpp"
#include "runtime/tokenizer/chat_template/python/attributes.hpp"
#include "runtime/tokenizer/chat_template/python/binding.hpp"
#include "runtime/tokenizer/chat_template/python/json_text.hpp"
#include "runtime/tokenizer/chat_template/python/numbers.hpp"
#include "runtime/tokenizer/chat_template/python/operators.hpp"
#include "runtime/tokenizer/chat_template/python/printing.hpp"

#include <algorithm>
#include <cmath>

/// Filters for single values: defaults, numbers, JSON. And the table of all filters.
namespace paceline::tokenizer::jinja {

namespace {

value default_filter(runtime& rt, const value& v, const call_arguments& arguments) {
  const auto bound = bind("default", arguments, {"default_value", "boolean"});
  const bool replace = v.is_undefined() || (bound.flag(rt, 1) && !truth(rt, v));
  return replace ? bound.get(0, value::of_text("")) : v;
}

value attribute(runtime& rt, const value& v, const call_arguments& arguments) {
  const auto bound = bind("attr", arguments, {"name"}, 1);
  const std::string_view name = bound.text(rt, 0);
  const auto found = own_attribute(rt, v, name);
  return found ? *found : value::undefined(undefined_reason::attribute, name, v.type());
}

value absolute(runtime& rt, const value& v, const call_arguments& arguments) {
  (void)bind("abs", arguments, {});
  if (!v.is_number()) fail("bad operand type for abs(): '" + std::string(type_name(v)) + "'");
  if (v.is(value_type::real)) return value::of_real(std::fabs(v.real()));
  return v.integer() < 0 ? negate(v) : binary(rt, binary_operator::add, v, value::of_integer(0));
}

value to_integer(runtime& rt, const value& v, const call_arguments& arguments) {
  const auto bound = bind("int", arguments, {"default", "base"});
  const value fallback = bound.get(0, value::of_integer(0));
  require_defined(rt, v);
  if (v.is_integral()) return value::of_integer(v.integer());
  if (v.is(value_type::real)) {
    if (std::isinf(v.real())) fail("cannot convert float infinity to integer");
    return truncated(v.real()).value_or(fallback);
  }
  if (!v.is_string()) return fallback;
  rt.memory.scan(v.text().size());
  if (const auto whole = integer_of_text(v.text(), bound.integer(rt, 1, 10)))
    return value::of_integer(*whole);
  const auto real = real_of_text(v.text());
  return real ? truncated(*real).value_or(fallback) : fallback;
}

value to_real(runtime& rt, const value& v, const call_arguments& arguments) {
  const auto bound = bind("float", arguments, {"default"});
  require_defined(rt, v);
  if (v.is_number()) return value::of_real(as_real(v));
  const auto real = v.is_string() ? real_of_text(v.text()) : std::nullopt;
  return real ? value::of_real(*real) : bound.get(0, value::of_real(0));
}

value round_filter(runtime& rt, const value& v, const call_arguments& arguments) {
  const auto bound = bind("round", arguments, {"precision", "method"});
  const value method = bound.get(1, value::of_text("common"));
  const std::string_view name = method.is_string() ? method.text() : std::string_view();
  if (name != "common" && name != "ceil" && name != "floor") fail("method must be common, ceil or floor");
  if (!v.is_number()) {
    require_defined(rt, v);
    fail("type " + std::string(type_name(v)) + " doesn't define __round__ method");
  }
  if (name == "common") {
    const wide_int precision = bound.has(0) || !bound.given(0) ? bound.integer(rt, 0, 0) : 0;
    return v.is(value_type::real) ? value::of_real(rounded(v.real(), precision))
                                  : value::of_integer(rounded(v.integer(), precision));
  }
  const value scale =
      binary(rt, binary_operator::power, value::of_integer(10), bound.get(0, value::of_integer(0)));
  const value scaled = binary(rt, binary_operator::multiply, v, scale);
  value whole = scaled;
  if (scaled.is(value_type::real)) {
    if (!std::isfinite(scaled.real())) fail("cannot convert float to integer");
    const auto integer = truncated(name == "ceil" ? std::ceil(scaled.real()) : std::floor(scaled.real()));
    if (!integer) fail("integer result is outside the 128 bits offered");
    whole = *integer;
  }
  return binary(rt, binary_operator::divide, whole, scale);
}

value file_size(runtime& rt, const value& v, const call_arguments& arguments) {
  const auto bound = bind("filesizeformat", arguments, {"binary"});
  require_defined(rt, v);
  const auto parsed = v.is_string() ? real_of_text(v.text()) : std::nullopt;
  if (!v.is_number() && !parsed) fail("filesizeformat needs a number");
  const double bytes = v.is_number() ? as_real(v) : *parsed;
  const bool binary_units = bound.flag(rt, 0);
  const double base = binary_units ? 1024 : 1000;
  if (bytes == 1) return value::of_text("1 Byte");
  if (bytes < base) {
    const auto whole = truncated(bytes);
    if (!whole) fail("cannot convert float to integer");
    return rt.memory.keep(str(rt, *whole) + " Bytes");
  }
  constexpr std::string_view prefixes = "kMGTPEZY";
  double unit = base;
  std::size_t chosen = 0;
  for (; chosen < prefixes.size(); ++chosen) {
    unit *= base;
    if (bytes < unit || chosen + 1 == prefixes.size()) break;
  }
  const char letter = binary_units && prefixes[chosen] == 'k' ? 'K' : prefixes[chosen];
  return rt.memory.keep(fixed_text(base * bytes / unit, 1) + " " + letter + (binary_units ? "iB" : "B"));
}

json_style indented(runtime& rt, const value& indent) {
  json_style style;
  if (indent.is_none() || indent.is_missing()) return style;
  style.item_separator = ",";
  if (indent.is_string()) {
    style.indent = std::string(indent.text());
    return style;
  }
  const wide_int width = std::max<wide_int>(require_integer(rt, indent, "indent"), 0);
  if (width > 4096) fail_limit("an indent above 4096 is not offered");
  style.indent = std::string(static_cast<std::size_t>(width), ' ');
  return style;
}

/// The parameters in the order in which transformers declares them.
value transformers_tojson(runtime& rt, const value& v, const call_arguments& arguments) {
  const auto bound = bind("tojson", arguments, {"ensure_ascii", "indent", "separators", "sort_keys"});
  json_style style = indented(rt, bound.get(1, value::none()));
  style.ensure_ascii = bound.flag(rt, 0);
  style.sort_keys = bound.flag(rt, 3);
  if (bound.has(2)) {
    const bool is_pair = (bound[2].is(value_type::tuple) || bound[2].is(value_type::list)) &&
                         bound[2].as<list_object>().items.size() == 2;
    if (!is_pair) fail("separators must be a pair of strings");
    const auto& pair = bound[2].as<list_object>().items;
    style.item_separator = require_text(rt, pair[0], "a separator");
    style.key_separator = require_text(rt, pair[1], "a separator");
  }
  return rt.memory.keep(json_text(rt, v, style));
}

value jinja2_tojson(runtime& rt, const value& v, const call_arguments& arguments) {
  const auto bound = bind("tojson", arguments, {"indent"});
  json_style style = indented(rt, bound.get(0, value::none()));
  style.ensure_ascii = style.sort_keys = true;
  std::string out;
  for (const char c : json_text(rt, v, style)) {
    switch (c) {
    case '<':
      out += "\\u003c";
      break;
    case '>':
      out += "\\u003e";
      break;
    case '&':
      out += "\\u0026";
      break;
    case '\'':
      out += "\\u0027";
      break;
    default:
      out += c;
    }
  }
  return rt.memory.keep(std::move(out), true);
}

value tojson(runtime& rt, const value& v, const call_arguments& arguments) {
  return rt.options.tojson == tojson_style::transformers ? transformers_tojson(rt, v, arguments)
                                                         : jinja2_tojson(rt, v, arguments);
}

value not_offered(runtime&, const value&, const call_arguments&) {
  throw failure{
      errc::unsupported,
      "the filters pprint, random, striptags, urlize and wordwrap are not offered in chat templates", 0};
}

constexpr filter_entry value_entries[] = {
    {"default", default_filter}, {"d", default_filter},         {"attr", attribute},
    {"abs", absolute},           {"int", to_integer},           {"float", to_real},
    {"round", round_filter},     {"filesizeformat", file_size}, {"tojson", tojson},
    {"pprint", not_offered},     {"random", not_offered},       {"striptags", not_offered},
    {"urlize", not_offered},     {"wordwrap", not_offered},
};

} // namespace

std::span<const filter_entry> value_filters() { return value_entries; }

const filter_entry* find_filter(std::string_view name) {
  for (const auto table : {text_filters(), sequence_filters(), selection_filters(), value_filters()})
    for (const filter_entry& entry : table)
      if (entry.name == name) return &entry;
  return nullptr;
}

} // namespace paceline::tokenizer::jinja
