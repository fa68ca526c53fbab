#pragma once

#include "runtime/tokenizer/chat_template/python/runtime.hpp"

#include <string_view>

namespace paceline::tokenizer::jinja {

using native_test = bool (*)(runtime&, const value& operand, const call_arguments&);

/// A test, as in `x is defined`.
struct test_entry {
  std::string_view name;
  native_test call = nullptr;
};

/// Null when jinja2 has no such test.
const test_entry* find_test(std::string_view name);

} // namespace paceline::tokenizer::jinja
