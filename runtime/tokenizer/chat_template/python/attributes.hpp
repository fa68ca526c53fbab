#pragma once

#include "runtime/tokenizer/chat_template/python/runtime.hpp"

#include <optional>
#include <string_view>

namespace paceline::tokenizer::jinja {

/// `obj.name` in a template: a method or attribute; if there is none, the item with this key, or undefined.
value get_attribute(runtime& rt, const value& object, std::string_view name);
/// `obj[key]` in a template: an item; if there is none, a method or attribute, or undefined.
value get_item(runtime& rt, const value& object, const value& key);
/// `obj[start:stop:step]`; None for omitted parts.
value get_slice(runtime& rt, const value& object, const value& start, const value& stop, const value& step);
/// A method or attribute, never an item; nullopt if there is none.
std::optional<value> own_attribute(runtime& rt, const value& object, std::string_view name);

} // namespace paceline::tokenizer::jinja
