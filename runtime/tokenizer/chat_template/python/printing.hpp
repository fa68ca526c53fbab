#pragma once

#include "runtime/tokenizer/chat_template/python/runtime.hpp"

#include <string>

namespace paceline::tokenizer::jinja {

std::string integer_text(wide_int number);
/// repr(float): the shortest digits that read back as the same number.
std::string real_text(double number);
/// `number` with exactly `precision` digits after the decimal point.
std::string fixed_text(double number, int precision);
/// `number` in scientific notation: `precision` digits after the decimal point and an exponent of at least
/// two digits.
std::string scientific_text(double number, int precision);

/// Append Python's str(v) or repr(v) to `out`; fail if the memory budget is exceeded.
void append_str(runtime& rt, std::string& out, const value& v);
void append_repr(runtime& rt, std::string& out, const value& v);
std::string str(runtime& rt, const value& v);
std::string repr(runtime& rt, const value& v);
/// str(v) without a copy when `v` is a string.
std::string_view str_view(runtime& rt, const value& v);

} // namespace paceline::tokenizer::jinja
