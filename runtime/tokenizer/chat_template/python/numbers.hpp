#pragma once

#include "runtime/tokenizer/chat_template/python/value.hpp"

#include <optional>
#include <string_view>

namespace paceline::tokenizer::jinja {

/// 0 to 35 for digits and letters, 99 for everything else.
int digit_value(char c) noexcept;
/// Python's int(text, base). Allows surrounding blanks, a sign, underscores between digits, and a prefix that
/// matches the base. nullopt if Python raises ValueError, and for numbers beyond 128 bits.
std::optional<wide_int> integer_of_text(std::string_view text, wide_int base);
/// Python's float(text); nullopt if Python raises ValueError.
std::optional<double> real_of_text(std::string_view text);
/// Python's int(number): rounds toward zero; nullopt if the number is not finite or too large.
std::optional<value> truncated(double number);
/// Python's round(number, precision): rounds the exact binary value, halves to even.
double rounded(double number, wide_int precision);
wide_int rounded(wide_int number, wide_int precision);

} // namespace paceline::tokenizer::jinja
