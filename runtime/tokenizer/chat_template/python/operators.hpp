#pragma once

#include "runtime/tokenizer/chat_template/python/runtime.hpp"

#include <optional>

/// Python's operators over values. They throw `failure` where Python raises an exception (TypeError,
/// ZeroDivisionError and so on).
namespace paceline::tokenizer::jinja {

enum class binary_operator : std::uint8_t { add, subtract, multiply, divide, floor_divide, modulo, power };
enum class comparison : std::uint8_t {
  equal,
  not_equal,
  less,
  less_equal,
  greater,
  greater_equal,
  in,
  not_in
};

bool truth(runtime& rt, const value& v);
bool equal(runtime& rt, const value& a, const value& b);
/// Python's `is`; equal strings and equal numbers of one type count as the same object.
bool identical(runtime& rt, const value& a, const value& b);
bool less(runtime& rt, const value& a, const value& b, std::string_view symbol = "<");
bool contains(runtime& rt, const value& container, const value& item);
bool compare(runtime& rt, comparison op, const value& a, const value& b);

value binary(runtime& rt, binary_operator op, const value& a, const value& b);
value negate(const value& v);
value plus(const value& v);

/// Fails for values that are not hashable in Python.
std::size_t hash_of(runtime& rt, const value& v);
/// Python's len(v); nullopt if the type has no length.
std::optional<wide_int> length_of(runtime& rt, const value& v);

/// Fails with Python's message when `v` is undefined.
void require_defined(runtime& rt, const value& v);
std::string undefined_message(runtime& rt, const value& v);

/// The number as a double; `v.is_number()` must hold.
double as_real(const value& v) noexcept;
/// The value of an index, count or width. Fails with a message that names `what` if `v` is no int or bool.
wide_int require_integer(runtime& rt, const value& v, std::string_view what);
/// The text of `v`. Fails with a message that names `what` if `v` is no string.
std::string_view require_text(runtime& rt, const value& v, std::string_view what);

} // namespace paceline::tokenizer::jinja
