#include "runtime/tokenizer/chat_template/evaluation/attribute_path.hpp"
#include "runtime/tokenizer/chat_template/evaluation/filters.hpp"
#include "runtime/tokenizer/chat_template/python/attributes.hpp"
#include "runtime/tokenizer/chat_template/python/binding.hpp"
#include "runtime/tokenizer/chat_template/python/format.hpp"
#include "runtime/tokenizer/chat_template/python/iteration.hpp"
#include "runtime/tokenizer/chat_template/python/markup.hpp"
#include "runtime/tokenizer/chat_template/python/operators.hpp"
#include "runtime/tokenizer/chat_template/python/printing.hpp"
#include "runtime/tokenizer/chat_template/python/unicode.hpp"

/// Filters that convert their operand to text.
namespace paceline::tokenizer::jinja {

namespace {

/// The operand as text; markup stays markup.
value soft_text(runtime& rt, const value& v) { return v.is_string() ? v : rt.memory.keep(str(rt, v)); }
value plain_text(runtime& rt, const value& v) {
  return v.is_string() ? value::of_text(v.text()) : rt.memory.keep(str(rt, v));
}

value call_method(runtime& rt, const value& self, std::string_view name, std::vector<value> positional = {}) {
  const value method = get_attribute(rt, self, name);
  const auto& bound = method.as<method_object>();
  return bound.call(rt, bound.self, call_arguments{std::move(positional), {}});
}

value lower(runtime& rt, const value& v, const call_arguments& arguments) {
  (void)bind("lower", arguments, {});
  return call_method(rt, soft_text(rt, v), "lower");
}

value upper(runtime& rt, const value& v, const call_arguments& arguments) {
  (void)bind("upper", arguments, {});
  return call_method(rt, soft_text(rt, v), "upper");
}

value capitalize_filter(runtime& rt, const value& v, const call_arguments& arguments) {
  (void)bind("capitalize", arguments, {});
  return call_method(rt, soft_text(rt, v), "capitalize");
}

bool separates_words(char32_t c) {
  return c == '-' || is_space(c) || c == '(' || c == '{' || c == '[' || c == '<';
}

/// Upper case after each separator, lower case elsewhere; unlike str.title(), an apostrophe does not start a
/// word.
value title(runtime& rt, const value& v, const call_arguments& arguments) {
  (void)bind("title", arguments, {});
  const std::string_view text = soft_text(rt, v).text();
  rt.memory.scan(text.size());
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const character first = character_at(text, at);
    std::size_t end = at + first.size;
    while (end < text.size() && separates_words(character_at(text, end).code) == separates_words(first.code))
      end += character_at(text, end).size;
    out += to_upper(text.substr(at, first.size));
    out += to_lower(text.substr(at + first.size, end - at - first.size));
    at = end;
  }
  return rt.memory.keep(std::move(out));
}

value trim(runtime& rt, const value& v, const call_arguments& arguments) {
  const auto bound = bind("trim", arguments, {"chars"});
  return call_method(rt, soft_text(rt, v), "strip", {bound.get(0, value::none())});
}

value center(runtime& rt, const value& v, const call_arguments& arguments) {
  const auto bound = bind("center", arguments, {"width"});
  return call_method(rt, soft_text(rt, v), "center", {bound.get(0, value::of_integer(80))});
}

value replace(runtime& rt, const value& v, const call_arguments& arguments) {
  const auto bound = bind("replace", arguments, {"old", "new", "count"}, 2);
  const value count = bound.has(2) ? bound[2] : value::of_integer(-1);
  return call_method(rt, plain_text(rt, v), "replace",
                     {plain_text(rt, bound[0]), plain_text(rt, bound[1]), count});
}

value format_filter(runtime& rt, const value& v, const call_arguments& arguments) {
  if (!arguments.positional.empty() && !arguments.named.empty())
    fail("can't handle positional and keyword arguments at the same time");
  if (arguments.named.empty())
    return percent_format(rt, soft_text(rt, v), rt.memory.tuple(arguments.positional));
  auto& mapping = rt.memory.make<dict_object>();
  for (const auto& [name, item] : arguments.named) mapping.set(rt, value::of_text(name), item);
  return percent_format(rt, soft_text(rt, v), rt.memory.dict(mapping));
}

value indent(runtime& rt, const value& v, const call_arguments& arguments) {
  const auto bound = bind("indent", arguments, {"width", "first", "blank"});
  const std::string_view text = require_text(rt, v, "the operand of indent");
  value indention = bound.get(0, value::of_integer(4));
  if (!indention.is_string())
    indention = binary(rt, binary_operator::multiply, value::of_text(" "), indention);
  const bool blank = bound.flag(rt, 2);
  const value lines = call_method(rt, rt.memory.keep(std::string(text) + "\n"), "splitlines");
  std::string out = bound.flag(rt, 1) ? std::string(indention.text()) : "";
  bool first = true;
  for (const value& line : lines.as<list_object>().items) {
    if (!first) {
      out += '\n';
      if (blank || !line.text().empty()) out += indention.text();
    }
    first = false;
    out += line.text();
    rt.memory.require(out.size());
  }
  return rt.memory.keep(std::move(out), v.markup());
}

value join(runtime& rt, const value& v, const call_arguments& arguments) {
  const auto bound = bind("join", arguments, {"d", "attribute"});
  const std::string_view separator = bound.given(0) ? plain_text(rt, bound[0]).text() : std::string_view();
  const attribute_path path(rt, bound.get(1, value::none()));
  std::string out;
  bool first = true;
  value item;
  for (cursor walk(rt, v); walk.next(rt, item);) {
    if (!first) out += separator;
    first = false;
    append_str(rt, out, path.walk(rt, item));
    rt.memory.require(out.size());
  }
  return rt.memory.keep(std::move(out));
}

value string_filter(runtime& rt, const value& v, const call_arguments& arguments) {
  (void)bind("string", arguments, {});
  return soft_text(rt, v);
}

value safe(runtime& rt, const value& v, const call_arguments& arguments) {
  (void)bind("safe", arguments, {});
  return value::of_text(soft_text(rt, v).text(), true);
}

value escape(runtime& rt, const value& v, const call_arguments& arguments) {
  (void)bind("escape", arguments, {});
  return rt.memory.keep(escaped(rt, v), true);
}

value force_escape(runtime& rt, const value& v, const call_arguments& arguments) {
  (void)bind("forceescape", arguments, {});
  return rt.memory.keep(escaped(rt, plain_text(rt, v)), true);
}

value truncate(runtime& rt, const value& v, const call_arguments& arguments) {
  const auto bound = bind("truncate", arguments, {"length", "killwords", "end", "leeway"});
  const wide_int length = bound.integer(rt, 0, 255);
  const std::string_view end = bound.text(rt, 2, "...");
  const wide_int leeway = bound.has(3) ? bound.integer(rt, 3) : 5;
  const auto end_length = static_cast<wide_int>(num_characters(end));
  if (length < end_length) fail("expected length >= " + std::to_string(num_characters(end)) + " in truncate");
  if (leeway < 0) fail("expected leeway >= 0 in truncate");
  const auto size = length_of(rt, v);
  if (!size) fail("object of type '" + std::string(type_name(v)) + "' has no len()");
  if (*size <= length + leeway) return v;
  const std::string_view text = require_text(rt, v, "the operand of truncate");
  std::string_view kept = text.substr(0, byte_offset(text, static_cast<std::size_t>(length - end_length)));
  if (!bound.flag(rt, 1)) kept = kept.substr(0, std::min(kept.rfind(' '), kept.size()));
  return rt.memory.keep(std::string(kept) + std::string(end), v.markup());
}

value word_count(runtime& rt, const value& v, const call_arguments& arguments) {
  (void)bind("wordcount", arguments, {});
  const std::string_view text = soft_text(rt, v).text();
  rt.memory.scan(text.size());
  wide_int words = 0;
  bool inside = false;
  for_each_character(text, [&](character c, std::size_t) {
    const bool part = c.code == '_' || is_alphabetic(c.code) || is_numeric(c.code);
    if (part && !inside) ++words;
    inside = part;
  });
  return value::of_integer(words);
}

std::string url_quoted(runtime& rt, const value& v, bool for_query) {
  constexpr char digits[] = "0123456789ABCDEF";
  const std::string_view text = soft_text(rt, v).text();
  rt.memory.require(3 * text.size());
  std::string out;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '_' || c == '.' || c == '-' || c == '~' || (c == '/' && !for_query);
    const auto byte = static_cast<unsigned char>(c);
    if (plain)
      out += c;
    else if (c == ' ' && for_query)
      out += '+';
    else
      (out += '%') += {digits[byte >> 4], digits[byte & 15]};
  }
  return out;
}

value url_encode(runtime& rt, const value& v, const call_arguments& arguments) {
  (void)bind("urlencode", arguments, {});
  if (v.is_string() || !is_iterable(v)) return rt.memory.keep(url_quoted(rt, v, false));
  const value pairs = v.is(value_type::dict) ? call_method(rt, v, "items") : v;
  std::string out;
  value pair;
  for (cursor walk(rt, pairs); walk.next(rt, pair);) {
    const auto parts = collect(rt, pair);
    if (parts.size() != 2) fail("urlencode needs pairs of a key and a value");
    if (!out.empty()) out += '&';
    out += url_quoted(rt, parts[0], true) + "=" + url_quoted(rt, parts[1], true);
    rt.memory.require(out.size());
  }
  return rt.memory.keep(std::move(out));
}

value xml_attributes(runtime& rt, const value& v, const call_arguments& arguments) {
  const auto bound = bind("xmlattr", arguments, {"autospace"});
  require_defined(rt, v);
  if (!v.is(value_type::dict)) fail("xmlattr needs a mapping");
  std::string out;
  for (const auto& [key, item] : v.as<dict_object>().entries()) {
    if (item.is_none() || item.is_undefined()) continue;
    const std::string_view name = require_text(rt, key, "an attribute name");
    if (name.find_first_of(" \t\n\r\f\v/>=") != std::string_view::npos)
      fail("Invalid character in attribute name: " + repr(rt, key));
    if (!out.empty()) out += ' ';
    out += escaped(rt, key) + "=\"" + escaped(rt, item) + "\"";
    rt.memory.require(out.size());
  }
  if (bound.flag(rt, 0, true) && !out.empty()) out.insert(0, 1, ' ');
  return rt.memory.keep(std::move(out));
}

constexpr filter_entry text_entries[] = {
    {"lower", lower},
    {"upper", upper},
    {"capitalize", capitalize_filter},
    {"title", title},
    {"trim", trim},
    {"center", center},
    {"replace", replace},
    {"format", format_filter},
    {"indent", indent},
    {"join", join},
    {"string", string_filter},
    {"safe", safe},
    {"escape", escape},
    {"e", escape},
    {"forceescape", force_escape},
    {"truncate", truncate},
    {"wordcount", word_count},
    {"urlencode", url_encode},
    {"xmlattr", xml_attributes},
};

} // namespace

std::span<const filter_entry> text_filters() { return text_entries; }

} // namespace paceline::tokenizer::jinja
