#include "runtime/tokenizer/chat_template/python/format.hpp"
#include "runtime/tokenizer/chat_template/python/markup.hpp"
#include "runtime/tokenizer/chat_template/python/operators.hpp"

#include <cmath>
#include <string>

namespace paceline::tokenizer::jinja {

namespace {

std::string_view symbol_of(binary_operator op) {
  switch (op) {
  case binary_operator::add:
    return "+";
  case binary_operator::subtract:
    return "-";
  case binary_operator::multiply:
    return "*";
  case binary_operator::divide:
    return "/";
  case binary_operator::floor_divide:
    return "//";
  case binary_operator::modulo:
    return "%";
  case binary_operator::power:
    return "**";
  }
  return "?";
}

[[noreturn]] void fail_overflow() { fail("integer result is outside the 128 bits offered"); }
[[noreturn]] void fail_zero() { fail("division by zero"); }

wide_int floor_quotient(wide_int a, wide_int b) {
  if (b == -1) {
    wide_int negated = 0;
    if (__builtin_sub_overflow(wide_int{0}, a, &negated)) fail_overflow();
    return negated;
  }
  const wide_int quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

wide_int integer_power(wide_int base, wide_int exponent) {
  wide_int result = 1;
  bool base_overflows = false;
  while (exponent > 0) {
    if ((exponent & 1) != 0 && (base_overflows || __builtin_mul_overflow(result, base, &result)))
      fail_overflow();
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) base_overflows = true;
  }
  return result;
}

value integer_result(binary_operator op, wide_int a, wide_int b) {
  wide_int result = 0;
  bool overflow = false;
  switch (op) {
  case binary_operator::add:
    overflow = __builtin_add_overflow(a, b, &result);
    break;
  case binary_operator::subtract:
    overflow = __builtin_sub_overflow(a, b, &result);
    break;
  case binary_operator::multiply:
    overflow = __builtin_mul_overflow(a, b, &result);
    break;
  case binary_operator::floor_divide:
    if (b == 0) fail_zero();
    result = floor_quotient(a, b);
    break;
  case binary_operator::modulo:
    if (b == 0) fail_zero();
    result = b == -1 ? 0 : a % b;
    if (result != 0 && (result < 0) != (b < 0)) result += b;
    break;
  case binary_operator::power:
    result = integer_power(a, b);
    break;
  case binary_operator::divide:
    break; // never an integer
  }
  if (overflow) fail_overflow();
  return value::of_integer(result);
}

/// Quotient and remainder as Python's float division rounds them.
double real_floor_quotient(double a, double b) {
  double remainder = std::fmod(a, b);
  double quotient = (a - remainder) / b;
  if (remainder != 0 && (b < 0) != (remainder < 0)) quotient -= 1.0;
  if (quotient == 0) return std::copysign(0.0, a / b);
  const double floored = std::floor(quotient);
  return quotient - floored > 0.5 ? floored + 1.0 : floored;
}

double real_remainder(double a, double b) {
  double remainder = std::fmod(a, b);
  if (remainder == 0) return std::copysign(0.0, b);
  return (b < 0) != (remainder < 0) ? remainder + b : remainder;
}

double real_power(double a, double b) {
  if (a == 0 && b < 0) fail("0.0 cannot be raised to a negative power");
  const double result = std::pow(a, b);
  if (std::isnan(result) && !std::isnan(a) && !std::isnan(b)) fail("complex numbers are not offered");
  if (std::isinf(result) && std::isfinite(a) && std::isfinite(b)) fail("numerical result out of range");
  return result;
}

value real_result(binary_operator op, double a, double b) {
  const bool divides =
      op == binary_operator::divide || op == binary_operator::floor_divide || op == binary_operator::modulo;
  if (divides && b == 0) fail_zero();
  switch (op) {
  case binary_operator::add:
    return value::of_real(a + b);
  case binary_operator::subtract:
    return value::of_real(a - b);
  case binary_operator::multiply:
    return value::of_real(a * b);
  case binary_operator::divide:
    return value::of_real(a / b);
  case binary_operator::floor_divide:
    return value::of_real(real_floor_quotient(a, b));
  case binary_operator::modulo:
    return value::of_real(real_remainder(a, b));
  case binary_operator::power:
    return value::of_real(real_power(a, b));
  }
  return {};
}

value number_result(binary_operator op, const value& a, const value& b) {
  const bool integers = a.is_integral() && b.is_integral() && op != binary_operator::divide &&
                        !(op == binary_operator::power && b.integer() < 0);
  return integers ? integer_result(op, a.integer(), b.integer()) : real_result(op, as_real(a), as_real(b));
}

value concatenated(runtime& rt, const value& a, const value& b) {
  rt.memory.require(a.text().size() + b.text().size());
  if (a.markup() || b.markup()) return rt.memory.keep(escaped(rt, a) + escaped(rt, b), true);
  std::string joined;
  joined.reserve(a.text().size() + b.text().size());
  joined.append(a.text()).append(b.text());
  return rt.memory.keep(std::move(joined));
}

value joined_lists(runtime& rt, const value& a, const value& b) {
  const auto &x = a.as<list_object>().items, &y = b.as<list_object>().items;
  rt.memory.require((x.size() + y.size()) * sizeof(value));
  rt.memory.step(x.size() + y.size());
  std::vector<value> items;
  items.reserve(x.size() + y.size());
  items.insert(items.end(), x.begin(), x.end());
  items.insert(items.end(), y.begin(), y.end());
  return a.is(value_type::list) ? rt.memory.list(std::move(items)) : rt.memory.tuple(std::move(items));
}

/// `count`, limited so that `count * unit` cannot wrap; the limit exceeds any budget.
std::size_t repetitions(runtime& rt, const value& v, std::size_t unit) {
  const wide_int count = v.integer();
  if (count <= 0 || unit == 0) return 0;
  constexpr wide_int ceiling = wide_int{1} << 62;
  if (count > ceiling / static_cast<wide_int>(unit)) rt.memory.require(static_cast<std::size_t>(ceiling));
  rt.memory.require(static_cast<std::size_t>(count) * unit);
  return static_cast<std::size_t>(count);
}

value repeated(runtime& rt, const value& sequence, const value& count) {
  if (sequence.is_string()) {
    const std::size_t times = repetitions(rt, count, sequence.text().size());
    std::string text;
    text.reserve(times * sequence.text().size());
    for (std::size_t i = 0; i < times; ++i) text += sequence.text();
    return rt.memory.keep(std::move(text), sequence.markup());
  }
  const auto& items = sequence.as<list_object>().items;
  const std::size_t times = repetitions(rt, count, items.size() * sizeof(value));
  rt.memory.step(times * items.size());
  std::vector<value> all;
  all.reserve(times * items.size());
  for (std::size_t i = 0; i < times; ++i) all.insert(all.end(), items.begin(), items.end());
  return sequence.is(value_type::list) ? rt.memory.list(std::move(all)) : rt.memory.tuple(std::move(all));
}

bool is_repeatable(const value& v) {
  return v.is_string() || v.is(value_type::list) || v.is(value_type::tuple);
}

} // namespace

value binary(runtime& rt, binary_operator op, const value& a, const value& b) {
  if (a.is_number() && b.is_number()) return number_result(op, a, b);
  if (op == binary_operator::add) {
    if (a.is_string() && b.is_string()) return concatenated(rt, a, b);
    if (a.type() == b.type() && (a.is(value_type::list) || a.is(value_type::tuple)))
      return joined_lists(rt, a, b);
  }
  if (op == binary_operator::multiply) {
    if (is_repeatable(a) && b.is_integral()) return repeated(rt, a, b);
    if (a.is_integral() && is_repeatable(b)) return repeated(rt, b, a);
  }
  if (op == binary_operator::modulo && a.is_string()) return percent_format(rt, a, b);
  require_defined(rt, a);
  require_defined(rt, b);
  fail("unsupported operand type(s) for " + std::string(symbol_of(op)) + ": '" + std::string(type_name(a)) +
       "' and '" + std::string(type_name(b)) + "'");
}

value negate(const value& v) {
  if (v.is(value_type::real)) return value::of_real(-v.real());
  if (v.is_integral()) return integer_result(binary_operator::subtract, 0, v.integer());
  fail("bad operand type for unary -: '" + std::string(type_name(v)) + "'");
}

value plus(const value& v) {
  if (v.is(value_type::real)) return v;
  if (v.is_integral()) return value::of_integer(v.integer());
  fail("bad operand type for unary +: '" + std::string(type_name(v)) + "'");
}

} // namespace paceline::tokenizer::jinja
