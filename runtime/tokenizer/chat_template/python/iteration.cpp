#include "runtime/tokenizer/chat_template/python/iteration.hpp"

#include "runtime/tokenizer/chat_template/python/operators.hpp"
#include "runtime/tokenizer/chat_template/python/unicode.hpp"

namespace paceline::tokenizer::jinja {

namespace {

bool next_of_iterator(iterator_object& iterator, value& out) {
  if (iterator.position < iterator.items.size()) {
    out = iterator.items[iterator.position++];
    return true;
  }
  if (iterator.pending) {
    const failure due = *iterator.pending;
    iterator.pending.reset();
    throw due;
  }
  return false;
}

value entry_of(runtime& rt, const dict_object::entry& entry, dict_view_object::part part) {
  switch (part) {
  case dict_view_object::part::keys:
    return entry.first;
  case dict_view_object::part::values:
    return entry.second;
  case dict_view_object::part::items:
    break;
  }
  return rt.memory.pair(entry.first, entry.second);
}

} // namespace

bool is_iterable(const value& v) noexcept {
  switch (v.type()) {
  case value_type::undefined:
  case value_type::string:
  case value_type::list:
  case value_type::tuple:
  case value_type::dict:
  case value_type::dict_view:
  case value_type::range:
  case value_type::iterator:
    return true;
  default:
    return false;
  }
}

cursor::cursor(runtime&, const value& v) : source_(v) {
  if (!is_iterable(v)) fail("'" + std::string(type_name(v)) + "' object is not iterable");
}

bool cursor::next(runtime& rt, value& out) {
  rt.memory.step();
  switch (source_.type()) {
  case value_type::string: {
    if (at_ >= source_.text().size()) return false;
    const character c = character_at(source_.text(), at_);
    out = value::of_text(source_.text().substr(at_, c.size)); // of markup too: plain str
    at_ += c.size;
    return true;
  }
  case value_type::list:
  case value_type::tuple: {
    const auto& items = source_.as<list_object>().items;
    if (at_ >= items.size()) return false;
    out = items[at_++];
    return true;
  }
  case value_type::dict: {
    const auto& entries = source_.as<dict_object>().entries();
    if (at_ >= entries.size()) return false;
    out = entries[at_++].first;
    return true;
  }
  case value_type::dict_view: {
    const auto& view = source_.as<dict_view_object>();
    if (at_ >= view.dict->size()) return false;
    out = entry_of(rt, view.dict->entries()[at_++], view.shows);
    return true;
  }
  case value_type::range: {
    const auto& range = source_.as<range_object>();
    if (static_cast<wide_int>(at_) >= range.size()) return false;
    out = value::of_integer(range.start + static_cast<wide_int>(at_++) * range.step);
    return true;
  }
  case value_type::iterator:
    return next_of_iterator(source_.as<iterator_object>(), out);
  default:
    return false; // undefined: empty
  }
}

std::vector<value> collect(runtime& rt, const value& v) {
  std::vector<value> items;
  value item;
  for (cursor walk(rt, v); walk.next(rt, item);) {
    rt.memory.charge(sizeof(value));
    items.push_back(item);
  }
  return items;
}

} // namespace paceline::tokenizer::jinja
