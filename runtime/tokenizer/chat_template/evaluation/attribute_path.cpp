#include "runtime/tokenizer/chat_template/evaluation/attribute_path.hpp"

#include "runtime/tokenizer/chat_template/python/attributes.hpp"
#include "runtime/tokenizer/chat_template/python/unicode.hpp"
#include "runtime/tokenizer/chat_template/syntax/literals.hpp"

#include <algorithm>

namespace paceline::tokenizer::jinja {

attribute_path::attribute_path(runtime& rt, const value& attribute) {
  if (attribute.is_none()) return;
  if (!attribute.is_string()) {
    parts_.push_back(attribute);
    return;
  }
  std::string_view rest = attribute.text();
  for (bool more = true; more;) {
    const std::size_t point = std::min(rest.find('.'), rest.size());
    const std::string_view part = rest.substr(0, point);
    const bool digits =
        !part.empty() && std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; });
    const auto index = digits ? parse_integer(part) : std::nullopt;
    if (digits && !index) fail("an attribute index is too large");
    parts_.push_back(index ? value::of_integer(*index) : value::of_text(part));
    rt.memory.step();
    more = point < rest.size();
    if (more) rest.remove_prefix(point + 1);
  }
}

value attribute_path::walk(runtime& rt, const value& item, const value& fallback) const {
  value at = item;
  for (const value& part : parts_) {
    at = get_item(rt, at, part);
    if (!fallback.is_none() && at.is_undefined()) at = fallback;
  }
  return at;
}

value case_key(runtime& rt, const value& v, bool case_sensitive) {
  if (case_sensitive || !v.is_string()) return v;
  rt.memory.scan(v.text().size());
  return rt.memory.keep(to_lower(v.text()));
}

} // namespace paceline::tokenizer::jinja
