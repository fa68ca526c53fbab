#include "runtime/tokenizer/chat_template/python/binding.hpp"
#include "runtime/tokenizer/chat_template/python/format.hpp"
#include "runtime/tokenizer/chat_template/python/iteration.hpp"
#include "runtime/tokenizer/chat_template/python/markup.hpp"
#include "runtime/tokenizer/chat_template/python/methods.hpp"
#include "runtime/tokenizer/chat_template/python/operators.hpp"
#include "runtime/tokenizer/chat_template/python/printing.hpp"
#include "runtime/tokenizer/chat_template/python/unicode.hpp"

#include <algorithm>

/// Methods of str that return another text. The results of markup's methods are markup.
namespace paceline::tokenizer::jinja {

namespace {

template <std::string (*map)(std::string_view)>
value mapped(runtime& rt, const value& self, const call_arguments& arguments) {
  (void)bind("the method", arguments, {});
  rt.memory.scan(self.text().size());
  rt.memory.require(3 * self.text().size()); // one character becomes at most three
  return rt.memory.keep(map(self.text()), self.markup());
}

enum class side : std::uint8_t { both, left, right };

template <side sides>
value stripped(runtime& rt, const value& self, const call_arguments& arguments) {
  const auto bound = bind("strip", arguments, {""});
  std::string_view text = self.text();
  const bool blanks = !bound.has(0);
  const std::string_view set = blanks ? std::string_view() : bound.text(rt, 0);
  rt.memory.scan(set.size());
  const auto goes = [&](character c, std::string_view spelling) {
    return blanks ? is_space(c.code) : set.find(spelling) != std::string_view::npos;
  };
  std::size_t turns = 0;
  if (sides != side::right) {
    while (!text.empty()) {
      const character c = character_at(text, 0);
      if (!goes(c, text.substr(0, c.size))) break;
      text.remove_prefix(c.size);
      ++turns;
    }
  }
  if (sides != side::left) {
    while (!text.empty()) {
      const character c = character_before(text, text.size());
      if (!goes(c, text.substr(text.size() - c.size))) break;
      text.remove_suffix(c.size);
      ++turns;
    }
  }
  rt.memory.scan(turns * (1 + set.size()));
  return value::of_text(text, self.markup());
}

std::size_t count_occurrences(std::string_view text, std::string_view part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at + part.size()))
    ++count;
  return count;
}

/// replace() of the empty string: the new text goes before every character and to the end.
std::string interleaved(std::string_view text, std::string_view part, std::size_t count) {
  std::string out;
  for_each_character(text, [&](character c, std::size_t at) {
    if (count > 0) {
      out += part;
      --count;
    }
    out += text.substr(at, c.size);
  });
  if (count > 0) out += part;
  return out;
}

std::string replaced(runtime& rt, std::string_view text, std::string_view old, std::string_view replacement,
                     wide_int limit) {
  rt.memory.scan(text.size());
  const std::size_t found = old.empty() ? num_characters(text) + 1 : count_occurrences(text, old);
  const std::size_t count =
      limit < 0 ? found : static_cast<std::size_t>(std::min<wide_int>(limit, static_cast<wide_int>(found)));
  if (replacement.size() > 1) {
    if (count > (std::size_t{1} << 40) / replacement.size())
      fail_limit("the template needs more memory than allowed");
    rt.memory.require(text.size() + count * replacement.size());
  }
  if (old.empty()) return interleaved(text, replacement, count);
  std::string out;
  std::size_t at = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t next = text.find(old, at);
    out += text.substr(at, next - at);
    out += replacement;
    at = next + old.size();
  }
  out += text.substr(at);
  return out;
}

value replace(runtime& rt, const value& self, const call_arguments& arguments) {
  const auto bound = bind("replace", arguments, {"", "", ""}, 2);
  const std::string_view old = bound.text(rt, 0);
  std::string_view replacement = bound.text(rt, 1);
  if (self.markup()) replacement = rt.memory.keep_view(escaped(rt, bound[1]));
  return rt.memory.keep(replaced(rt, self.text(), old, replacement, bound.integer(rt, 2, -1)), self.markup());
}

struct padding {
  std::size_t count = 0;
  std::string fill;
};

padding padding_for(runtime& rt, const value& self, const bound_arguments& bound) {
  padding result;
  const wide_int width = bound.integer(rt, 0);
  rt.memory.scan(self.text().size());
  const auto length = static_cast<wide_int>(num_characters(self.text()));
  result.fill = bound.text(rt, 1, " ");
  if (num_characters(result.fill) != 1) fail("The fill character must be exactly one character long");
  if (self.markup() && bound.given(1)) {
    result.fill = escaped(rt, bound[1]);
    if (num_characters(result.fill) != 1) fail("The fill character must be exactly one character long");
  }
  if (width <= length) return result;
  if (width > (wide_int{1} << 40)) fail_limit("the template needs more memory than allowed");
  result.count = static_cast<std::size_t>(width - length);
  rt.memory.require(self.text().size() + result.count * result.fill.size());
  return result;
}

value with_padding(runtime& rt, const value& self, const padding& pad, std::size_t left) {
  std::string out;
  for (std::size_t i = 0; i < left; ++i) out += pad.fill;
  out += self.text();
  for (std::size_t i = left; i < pad.count; ++i) out += pad.fill;
  return rt.memory.keep(std::move(out), self.markup());
}

value center(runtime& rt, const value& self, const call_arguments& arguments) {
  const auto bound = bind("center", arguments, {"", ""}, 1);
  const padding pad = padding_for(rt, self, bound);
  const bool odd_width = (bound.integer(rt, 0) & 1) != 0;
  return with_padding(rt, self, pad, pad.count / 2 + ((pad.count & 1) != 0 && odd_width ? 1 : 0));
}

value left_justify(runtime& rt, const value& self, const call_arguments& arguments) {
  return with_padding(rt, self, padding_for(rt, self, bind("ljust", arguments, {"", ""}, 1)), 0);
}

value right_justify(runtime& rt, const value& self, const call_arguments& arguments) {
  const padding pad = padding_for(rt, self, bind("rjust", arguments, {"", ""}, 1));
  return with_padding(rt, self, pad, pad.count);
}

value zero_fill(runtime& rt, const value& self, const call_arguments& arguments) {
  const padding pad = padding_for(rt, self, bind("zfill", arguments, {""}, 1));
  std::string out(self.text());
  const std::size_t sign = !out.empty() && (out[0] == '+' || out[0] == '-') ? 1 : 0;
  out.insert(sign, pad.count, '0');
  return rt.memory.keep(std::move(out), self.markup());
}

value expand_tabs(runtime& rt, const value& self, const call_arguments& arguments) {
  const auto bound = bind("expandtabs", arguments, {"tabsize"});
  const wide_int size = bound.integer(rt, 0, 8);
  if (size > 4096) fail_limit("a tab size above 4096 is not offered");
  rt.memory.scan(self.text().size());
  const auto width = static_cast<std::size_t>(std::max<wide_int>(size, 0));
  rt.memory.require(self.text().size() * std::max<std::size_t>(width, 1));
  std::string out;
  std::size_t column = 0;
  for_each_character(self.text(), [&](character c, std::size_t at) {
    if (c.code == '\t') {
      const std::size_t blanks = width == 0 ? 0 : width - column % width;
      out.append(blanks, ' ');
      column += blanks;
      return;
    }
    out += self.text().substr(at, c.size);
    column = c.code == '\n' || c.code == '\r' ? 0 : column + 1;
  });
  return rt.memory.keep(std::move(out), self.markup());
}

value remove_prefix(runtime& rt, const value& self, const call_arguments& arguments) {
  const std::string_view prefix = bind("removeprefix", arguments, {""}, 1).text(rt, 0);
  const bool starts = self.text().starts_with(prefix);
  return value::of_text(self.text().substr(starts ? prefix.size() : 0), self.markup());
}

value remove_suffix(runtime& rt, const value& self, const call_arguments& arguments) {
  const std::string_view suffix = bind("removesuffix", arguments, {""}, 1).text(rt, 0);
  const bool ends = self.text().ends_with(suffix);
  return value::of_text(self.text().substr(0, self.text().size() - (ends ? suffix.size() : 0)),
                        self.markup());
}

value join(runtime& rt, const value& self, const call_arguments& arguments) {
  const auto bound = bind("join", arguments, {""}, 1);
  std::string out;
  std::size_t index = 0;
  value item;
  for (cursor walk(rt, bound[0]); walk.next(rt, item); ++index) {
    if (index > 0) out += self.text();
    if (self.markup()) {
      out += escaped(rt, item);
    } else {
      if (!item.is_string())
        fail("sequence item " + std::to_string(index) + ": expected str instance, " +
             std::string(type_name(item)) + " found");
      out += item.text();
    }
    rt.memory.require(out.size());
  }
  return rt.memory.keep(std::move(out), self.markup());
}

value format(runtime& rt, const value& self, const call_arguments& arguments) {
  return brace_format(rt, self, arguments);
}

value format_map(runtime& rt, const value& self, const call_arguments& arguments) {
  const auto bound = bind("format_map", arguments, {""}, 1);
  require_defined(rt, bound[0]);
  if (!bound[0].is(value_type::dict)) fail("format_map() needs a mapping");
  call_arguments named;
  for (const auto& [key, item] : bound[0].as<dict_object>().entries())
    if (key.is_string()) named.named.emplace_back(key.text(), item);
  return brace_format(rt, self, named);
}

constexpr method_entry string_entries[] = {
    {"strip", stripped<side::both>},
    {"lstrip", stripped<side::left>},
    {"rstrip", stripped<side::right>},
    {"replace", replace},
    {"lower", mapped<to_lower>},
    {"upper", mapped<to_upper>},
    {"title", mapped<title_case>},
    {"capitalize", mapped<capitalize>},
    {"swapcase", mapped<swap_case>},
    {"casefold", mapped<to_casefold>},
    {"join", join},
    {"format", format},
    {"format_map", format_map},
    {"removeprefix", remove_prefix},
    {"removesuffix", remove_suffix},
    {"center", center},
    {"ljust", left_justify},
    {"rjust", right_justify},
    {"zfill", zero_fill},
    {"expandtabs", expand_tabs},
};

} // namespace

std::span<const method_entry> string_methods() { return string_entries; }

} // namespace paceline::tokenizer::jinja
