#include "runtime/tokenizer/chat_template/python/binding.hpp"
#include "runtime/tokenizer/chat_template/python/methods.hpp"
#include "runtime/tokenizer/chat_template/python/operators.hpp"
#include "runtime/tokenizer/chat_template/python/unicode.hpp"

#include <algorithm>

/// Methods of str that search, split or classify.
namespace paceline::tokenizer::jinja {

namespace {

/// The part of a text that a search with `start` and `stop` covers.
struct search_range {
  std::string_view text;
  std::int64_t first_character = 0;
  bool valid = true; ///< false: start is after the end, where not even "" is found
};

search_range range_of(runtime& rt, const value& self, const bound_arguments& bound) {
  rt.memory.scan(self.text().size());
  if (!bound.given(1)) return {self.text(), 0, true};
  const auto length = static_cast<std::int64_t>(num_characters(self.text()));
  const auto [start, stop] = clamp_slice(rt, bound[1], bound.get(2, value::none()), length);
  if (start > stop || start > length) return {{}, start, false};
  const std::size_t first = byte_offset(self.text(), static_cast<std::size_t>(start));
  const std::string_view rest = self.text().substr(first);
  return {rest.substr(0, byte_offset(rest, static_cast<std::size_t>(stop - start))), start, true};
}

template <bool backwards>
std::optional<std::int64_t> search(runtime& rt, const value& self, const call_arguments& arguments) {
  const auto bound = bind("find", arguments, {"", "", ""}, 1);
  const std::string_view part = bound.text(rt, 0);
  const search_range range = range_of(rt, self, bound);
  if (!range.valid) return std::nullopt;
  const std::size_t at = backwards ? range.text.rfind(part) : range.text.find(part);
  if (at == std::string_view::npos) return std::nullopt;
  return range.first_character + static_cast<std::int64_t>(num_characters(range.text.substr(0, at)));
}

template <bool backwards>
value find(runtime& rt, const value& self, const call_arguments& arguments) {
  return value::of_integer(search<backwards>(rt, self, arguments).value_or(-1));
}

template <bool backwards>
value index(runtime& rt, const value& self, const call_arguments& arguments) {
  const auto found = search<backwards>(rt, self, arguments);
  if (!found) fail("substring not found");
  return value::of_integer(*found);
}

value count(runtime& rt, const value& self, const call_arguments& arguments) {
  const auto bound = bind("count", arguments, {"", "", ""}, 1);
  const std::string_view part = bound.text(rt, 0);
  const search_range range = range_of(rt, self, bound);
  if (!range.valid) return value::of_integer(0);
  if (part.empty()) return value::of_integer(static_cast<wide_int>(num_characters(range.text)) + 1);
  wide_int found = 0;
  for (std::size_t at = range.text.find(part); at != std::string_view::npos;
       at = range.text.find(part, at + part.size()))
    ++found;
  return value::of_integer(found);
}

template <bool at_end>
value starts_or_ends(runtime& rt, const value& self, const call_arguments& arguments) {
  const auto bound = bind(at_end ? "endswith" : "startswith", arguments, {"", "", ""}, 1);
  const search_range range = range_of(rt, self, bound);
  const auto matches = [&](const value& wanted) {
    const std::string_view part = require_text(rt, wanted, "a prefix or suffix");
    return range.valid && (at_end ? range.text.ends_with(part) : range.text.starts_with(part));
  };
  if (!bound[0].is(value_type::tuple)) return value::of(matches(bound[0]));
  const auto& all = bound[0].as<list_object>().items;
  rt.memory.step(all.size() + 1);
  return value::of(std::any_of(all.begin(), all.end(), matches));
}

class splitter {
 public:
  splitter(runtime& rt, const value& self) : rt_(rt), self_(self), rest_(self.text()) {}

  value take() && { return rt_.memory.list(std::move(parts_)); }
  value take_reversed() && {
    std::reverse(parts_.begin(), parts_.end());
    return std::move(*this).take();
  }

  void by_separator(std::string_view separator, wide_int limit) {
    for (; limit != 0; --limit) {
      const std::size_t at = rest_.find(separator);
      if (at == std::string_view::npos) break;
      add(rest_.substr(0, at));
      rest_.remove_prefix(at + separator.size());
    }
    add(rest_);
  }

  void by_separator_backwards(std::string_view separator, wide_int limit) {
    for (; limit != 0; --limit) {
      const std::size_t at = rest_.rfind(separator);
      if (at == std::string_view::npos) break;
      add(rest_.substr(at + separator.size()));
      rest_ = rest_.substr(0, at);
    }
    add(rest_);
  }

  void by_blanks(wide_int limit) {
    for (skip_blanks(); !rest_.empty() && limit != 0; --limit, skip_blanks()) {
      std::size_t end = 0;
      while (end < rest_.size() && !is_space(character_at(rest_, end).code))
        end += character_at(rest_, end).size;
      add(rest_.substr(0, end));
      rest_.remove_prefix(end);
    }
    if (!rest_.empty()) add(rest_);
  }

  void by_blanks_backwards(wide_int limit) {
    for (skip_blanks_backwards(); !rest_.empty() && limit != 0; --limit, skip_blanks_backwards()) {
      std::size_t start = rest_.size();
      while (start > 0 && !is_space(character_before(rest_, start).code))
        start -= character_before(rest_, start).size;
      add(rest_.substr(start));
      rest_ = rest_.substr(0, start);
    }
    if (!rest_.empty()) add(rest_);
  }

  void by_lines(bool keep_ends) {
    while (!rest_.empty()) {
      std::size_t end = 0, after = 0;
      for (; end < rest_.size(); end = after) {
        const character c = character_at(rest_, end);
        after = end + c.size;
        if (!is_line_break(c.code)) continue;
        if (c.code == '\r' && after < rest_.size() && rest_[after] == '\n') ++after;
        break;
      }
      add(rest_.substr(0, keep_ends ? after : end));
      rest_.remove_prefix(after);
    }
  }

 private:
  void add(std::string_view part) {
    rt_.memory.step();
    rt_.memory.charge(sizeof(value));
    parts_.push_back(value::of_text(part, self_.markup()));
  }
  void skip_blanks() { rest_ = without_leading_blanks(rest_); }
  void skip_blanks_backwards() { rest_ = without_trailing_blanks(rest_); }

  runtime& rt_;
  const value& self_;
  std::string_view rest_;
  std::vector<value> parts_;
};

template <bool backwards>
value split(runtime& rt, const value& self, const call_arguments& arguments) {
  const auto bound = bind("split", arguments, {"sep", "maxsplit"});
  const wide_int limit = bound.integer(rt, 1, -1);
  rt.memory.scan(self.text().size());
  splitter parts(rt, self);
  if (bound.has(0)) {
    const std::string_view separator = bound.text(rt, 0);
    if (separator.empty()) fail("empty separator");
    if (backwards)
      parts.by_separator_backwards(separator, limit);
    else
      parts.by_separator(separator, limit);
  } else if (backwards) {
    parts.by_blanks_backwards(limit);
  } else {
    parts.by_blanks(limit);
  }
  return backwards ? std::move(parts).take_reversed() : std::move(parts).take();
}

value split_lines(runtime& rt, const value& self, const call_arguments& arguments) {
  const auto bound = bind("splitlines", arguments, {"keepends"});
  rt.memory.scan(self.text().size());
  splitter parts(rt, self);
  parts.by_lines(bound.flag(rt, 0));
  return std::move(parts).take();
}

template <bool backwards>
value partition(runtime& rt, const value& self, const call_arguments& arguments) {
  const std::string_view separator = bind("partition", arguments, {""}, 1).text(rt, 0);
  if (separator.empty()) fail("empty separator");
  rt.memory.scan(self.text().size());
  const std::string_view text = self.text();
  const std::size_t at = backwards ? text.rfind(separator) : text.find(separator);
  const auto part = [&](std::string_view piece) { return value::of_text(piece, self.markup()); };
  if (at != std::string_view::npos)
    return rt.memory.tuple(
        {part(text.substr(0, at)), part(separator), part(text.substr(at + separator.size()))});
  return backwards ? rt.memory.tuple({part(""), part(""), part(text)})
                   : rt.memory.tuple({part(text), part(""), part("")});
}

using predicate = bool (*)(char32_t) noexcept;

bool is_alphanumeric(char32_t c) noexcept {
  return is_alphabetic(c) || is_decimal(c) || is_digit(c) || is_numeric(c);
}

/// True when every character satisfies `test`; the empty text gives `when_empty`.
template <predicate test, bool when_empty>
value all_characters(runtime& rt, const value& self, const call_arguments& arguments) {
  (void)bind("the method", arguments, {});
  rt.memory.scan(self.text().size());
  bool all = when_empty || !self.text().empty();
  for_each_character(self.text(), [&](character c, std::size_t) { all = all && test(c.code); });
  return value::of(all);
}

bool is_ascii_character(char32_t c) noexcept { return c < 0x80; }

/// isupper, islower: some character has that case and none has another.
template <predicate wanted, predicate other>
value has_case(runtime& rt, const value& self, const call_arguments& arguments) {
  (void)bind("the method", arguments, {});
  rt.memory.scan(self.text().size());
  bool seen = false, wrong = false;
  for_each_character(self.text(), [&](character c, std::size_t) {
    seen = seen || wanted(c.code);
    wrong = wrong || other(c.code) || is_title(c.code);
  });
  return value::of(seen && !wrong);
}

value is_title_text(runtime& rt, const value& self, const call_arguments& arguments) {
  (void)bind("istitle", arguments, {});
  rt.memory.scan(self.text().size());
  bool after_cased = false, seen = false, wrong = false;
  for_each_character(self.text(), [&](character c, std::size_t) {
    const bool capital = is_upper(c.code) || is_title(c.code), small = is_lower(c.code);
    wrong = wrong || (capital && after_cased) || (small && !after_cased);
    after_cased = capital || small;
    seen = seen || after_cased;
  });
  return value::of(seen && !wrong);
}

value is_identifier(runtime& rt, const value& self, const call_arguments& arguments) {
  (void)bind("isidentifier", arguments, {});
  rt.memory.scan(self.text().size());
  bool good = !self.text().empty();
  for_each_character(self.text(), [&](character c, std::size_t at) {
    good = good && (at == 0 ? is_identifier_start(c.code) : is_identifier_part(c.code));
  });
  return value::of(good);
}

constexpr method_entry string_search_entries[] = {
    {"split", split<false>},
    {"rsplit", split<true>},
    {"splitlines", split_lines},
    {"startswith", starts_or_ends<false>},
    {"endswith", starts_or_ends<true>},
    {"find", find<false>},
    {"rfind", find<true>},
    {"index", index<false>},
    {"rindex", index<true>},
    {"count", count},
    {"partition", partition<false>},
    {"rpartition", partition<true>},
    {"isalpha", all_characters<is_alphabetic, false>},
    {"isdigit", all_characters<is_digit, false>},
    {"isdecimal", all_characters<is_decimal, false>},
    {"isnumeric", all_characters<is_numeric, false>},
    {"isalnum", all_characters<is_alphanumeric, false>},
    {"isspace", all_characters<is_space, false>},
    {"isprintable", all_characters<is_printable, true>},
    {"isascii", all_characters<is_ascii_character, true>},
    {"isupper", has_case<is_upper, is_lower>},
    {"islower", has_case<is_lower, is_upper>},
    {"istitle", is_title_text},
    {"isidentifier", is_identifier},
};

} // namespace

std::span<const method_entry> string_search_methods() { return string_search_entries; }

} // namespace paceline::tokenizer::jinja
