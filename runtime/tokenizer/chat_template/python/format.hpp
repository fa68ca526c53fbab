#pragma once

#include "runtime/tokenizer/chat_template/python/runtime.hpp"

#include <string>

namespace paceline::tokenizer::jinja {

/// `format % operand`: printf-style formatting of a string.
value percent_format(runtime& rt, const value& format, const value& operand);
/// str.format(*positional, **named).
value brace_format(runtime& rt, const value& format, const call_arguments& arguments);
/// format(v, specification): the part after the colon of a replacement field.
std::string format_value(runtime& rt, const value& v, std::string_view specification);

} // namespace paceline::tokenizer::jinja
