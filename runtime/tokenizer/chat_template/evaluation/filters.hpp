#pragma once

#include "runtime/tokenizer/chat_template/python/runtime.hpp"

#include <span>
#include <string_view>

namespace paceline::tokenizer::jinja {

/// A filter: `call(rt, operand, arguments)`.
struct filter_entry {
  std::string_view name;
  native_method call = nullptr;
};

/// Null if jinja2 has no such filter. Templates cannot add filters. Filters of jinja2 that are not
/// implemented (pprint, random, striptags, urlize, wordwrap) are found, but a call throws `failure`.
const filter_entry* find_filter(std::string_view name);

std::span<const filter_entry> text_filters();
std::span<const filter_entry> sequence_filters();
std::span<const filter_entry> selection_filters();
std::span<const filter_entry> value_filters();

} // namespace paceline::tokenizer::jinja
