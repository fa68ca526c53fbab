#include "runtime/tokenizer/chat_template/python/attributes.hpp"
#include "runtime/tokenizer/chat_template/python/format.hpp"
#include "runtime/tokenizer/chat_template/python/markup.hpp"
#include "runtime/tokenizer/chat_template/python/operators.hpp"
#include "runtime/tokenizer/chat_template/python/printing.hpp"

#include <algorithm>

namespace paceline::tokenizer::jinja {

namespace {

/// A replacement field: {name!conversion:specification}.
struct replacement_field {
  std::string_view name, specification;
  char conversion = 0;
};

bool all_digits(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

std::size_t parse_index(std::string_view digits) {
  std::size_t index = 0;
  for (const char c : digits) {
    if (index > (std::size_t{1} << 50)) fail("Too many decimal digits in format string");
    index = index * 10 + static_cast<std::size_t>(c - '0');
  }
  return index;
}

std::string ascii_repr(runtime& rt, const value& v) {
  // Only !a asks for it; ASCII text has the same repr.
  const std::string text = repr(rt, v);
  for (const char c : text)
    if (static_cast<unsigned char>(c) >= 0x80)
      fail("the conversion !a of text that is not ASCII is not offered");
  return text;
}

class brace_formatter {
 public:
  brace_formatter(runtime& rt, const call_arguments& arguments, bool markup)
      : rt_(rt), arguments_(arguments), markup_(markup) {}

  std::string format(std::string_view text, int depth) {
    if (depth < 0) fail("Max string recursion exceeded");
    std::string out;
    for (std::size_t at = 0; at < text.size();) {
      const char c = text[at];
      if (c != '{' && c != '}') {
        out += c;
        ++at;
      } else if (at + 1 < text.size() && text[at + 1] == c) {
        out += c;
        at += 2;
      } else if (c == '}') {
        fail("Single '}' encountered in format string");
      } else {
        rt_.memory.step();
        out += formatted(parse_field(text, ++at), depth);
        rt_.memory.require(out.size());
      }
    }
    return out;
  }

 private:
  /// `at` is after the opening brace, and is moved after the closing one.
  static replacement_field parse_field(std::string_view text, std::size_t& at) {
    if (at >= text.size()) fail("Single '{' encountered in format string");
    replacement_field field;
    const std::size_t start = at;
    bool in_brackets = false;
    for (; at < text.size(); ++at) {
      const char c = text[at];
      if (c == '{') fail("unexpected '{' in field name");
      if (c == '[') in_brackets = true;
      if (c == ']') in_brackets = false;
      if (!in_brackets && (c == '}' || c == ':' || c == '!')) break;
    }
    field.name = text.substr(start, at - start);
    if (at < text.size() && text[at] == '!') {
      if (at + 1 >= text.size()) fail("end of string while looking for conversion specifier");
      field.conversion = text[at + 1];
      at += 2;
      if (at < text.size() && text[at] != ':' && text[at] != '}')
        fail("expected ':' after conversion specifier");
    }
    if (at < text.size() && text[at] == ':') {
      const std::size_t begin = ++at;
      for (int depth = 0; at < text.size(); ++at) {
        if (text[at] == '{') ++depth;
        if (text[at] == '}' && depth-- == 0) break;
      }
      field.specification = text.substr(begin, at - begin);
    }
    if (at >= text.size()) fail("expected '}' before end of string");
    ++at;
    return field;
  }

  std::string formatted(const replacement_field& field, int depth) {
    value v = converted(find(field.name), field.conversion);
    const std::string specification = format(field.specification, depth - 1);
    if (!markup_) return format_value(rt_, v, specification);
    if (v.is_string() && v.markup()) {
      if (!specification.empty()) fail("Unsupported format specification for Markup.");
      return std::string(v.text());
    }
    return escaped(rt_, rt_.memory.keep(format_value(rt_, v, specification)));
  }

  value converted(const value& v, char conversion) {
    switch (conversion) {
    case 0:
      return v;
    case 's':
      return rt_.memory.keep(str(rt_, v));
    case 'r':
      return rt_.memory.keep(repr(rt_, v));
    case 'a':
      return rt_.memory.keep(ascii_repr(rt_, v));
    default:
      fail(std::string("Unknown conversion specifier ") + conversion);
    }
  }

  /// `name` is an argument, then any number of .attribute and [index].
  value find(std::string_view name) {
    const std::size_t first = std::min(name.find_first_of(".["), name.size());
    value found = argument(name.substr(0, first), name.empty());
    std::size_t at = first;
    while (at < name.size()) {
      if (name[at] == '.') {
        const std::size_t end = std::min(name.find_first_of(".[", at + 1), name.size());
        if (end == at + 1) fail("Empty attribute in format string");
        found = get_attribute(rt_, found, name.substr(at + 1, end - at - 1));
        at = end;
      } else if (name[at] == '[') {
        const std::size_t end = name.find(']', at);
        if (end == std::string_view::npos) fail("Missing ']' in format string");
        if (end == at + 1) fail("Empty attribute in format string");
        const std::string_view key = name.substr(at + 1, end - at - 1);
        found = get_item(rt_, found,
                         all_digits(key) ? value::of_integer(static_cast<wide_int>(parse_index(key)))
                                         : value::of_text(key));
        at = end + 1;
      } else {
        fail("Only '.' or '[' may follow ']' in format field specifier");
      }
    }
    return found;
  }

  value argument(std::string_view name, bool automatic) {
    if (automatic) {
      if (manual_) fail("cannot switch from manual field specification to automatic field numbering");
      automatic_ = true;
      return positional(next_++);
    }
    if (all_digits(name)) {
      if (automatic_) fail("cannot switch from manual field specification to automatic field numbering");
      manual_ = true;
      return positional(parse_index(name));
    }
    for (const auto& [key, v] : arguments_.named)
      if (key == name) return v;
    fail("format() got no argument '" + std::string(name) + "'");
  }

  value positional(std::size_t index) {
    if (index >= arguments_.positional.size())
      fail("Replacement index " + std::to_string(index) + " out of range");
    return arguments_.positional[index];
  }

  runtime& rt_;
  const call_arguments& arguments_;
  bool markup_;
  bool automatic_ = false, manual_ = false;
  std::size_t next_ = 0;
};

} // namespace

value brace_format(runtime& rt, const value& format, const call_arguments& arguments) {
  rt.memory.scan(format.text().size());
  brace_formatter formatter(rt, arguments, format.markup());
  return rt.memory.keep(formatter.format(format.text(), 2), format.markup());
}

} // namespace paceline::tokenizer::jinja
