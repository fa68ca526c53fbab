#include "runtime/tokenizer/chat_template/evaluation/tests.hpp"

#include "runtime/tokenizer/chat_template/evaluation/filters.hpp"
#include "runtime/tokenizer/chat_template/python/attributes.hpp"
#include "runtime/tokenizer/chat_template/python/binding.hpp"
#include "runtime/tokenizer/chat_template/python/iteration.hpp"
#include "runtime/tokenizer/chat_template/python/operators.hpp"
#include "runtime/tokenizer/chat_template/python/printing.hpp"

#include <algorithm>

namespace paceline::tokenizer::jinja {

namespace {

void no_arguments(const call_arguments& arguments) { (void)bind("the test", arguments, {}); }

template <value_type type>
bool is_type(runtime&, const value& v, const call_arguments& arguments) {
  no_arguments(arguments);
  return v.is(type);
}

template <bool flag>
bool is_flag(runtime&, const value& v, const call_arguments& arguments) {
  no_arguments(arguments);
  return v.is(value_type::boolean) && v.boolean() == flag;
}

bool is_defined(runtime&, const value& v, const call_arguments& arguments) {
  no_arguments(arguments);
  return !v.is_undefined();
}

bool is_number(runtime&, const value& v, const call_arguments& arguments) {
  no_arguments(arguments);
  return v.is_number();
}

bool is_iterable_value(runtime&, const value& v, const call_arguments& arguments) {
  no_arguments(arguments);
  return is_iterable(v) || v.is(value_type::loop);
}

/// Has a length and items; undefined values are empty sequences.
bool is_sequence(runtime&, const value& v, const call_arguments& arguments) {
  no_arguments(arguments);
  return v.is_string() || v.is(value_type::list) || v.is(value_type::tuple) || v.is(value_type::dict) ||
         v.is(value_type::range) || v.is_undefined();
}

bool is_callable(runtime&, const value& v, const call_arguments& arguments) {
  no_arguments(arguments);
  switch (v.type()) {
  case value_type::undefined:
  case value_type::function:
  case value_type::method:
  case value_type::macro:
  case value_type::joiner:
  case value_type::block:
  case value_type::loop:
    return true;
  default:
    return false;
  }
}

bool is_escaped(runtime&, const value& v, const call_arguments& arguments) {
  no_arguments(arguments);
  return v.is_string() && v.markup();
}

value remainder(runtime& rt, const value& v, const value& divisor) {
  return binary(rt, binary_operator::modulo, v, divisor);
}

template <int expected>
bool has_parity(runtime& rt, const value& v, const call_arguments& arguments) {
  no_arguments(arguments);
  return equal(rt, remainder(rt, v, value::of_integer(2)), value::of_integer(expected));
}

bool is_divisible(runtime& rt, const value& v, const call_arguments& arguments) {
  const auto bound = bind("divisibleby", arguments, {"num"}, 1);
  return equal(rt, remainder(rt, v, bound[0]), value::of_integer(0));
}

template <comparison op>
bool compares(runtime& rt, const value& v, const call_arguments& arguments) {
  const auto bound = bind("the test", arguments, {""}, 1);
  return compare(rt, op, v, bound[0]);
}

bool is_in(runtime& rt, const value& v, const call_arguments& arguments) {
  const auto bound = bind("in", arguments, {"seq"}, 1);
  return contains(rt, bound[0], v);
}

bool is_same(runtime& rt, const value& v, const call_arguments& arguments) {
  const auto bound = bind("sameas", arguments, {"other"}, 1);
  return identical(rt, v, bound[0]);
}

/// lower, upper: apply to the text of any value.
bool ask_text(runtime& rt, const value& v, std::string_view method) {
  const value text = v.is_string() ? v : rt.memory.keep(str(rt, v));
  const auto found = own_attribute(rt, text, method);
  const auto& bound = found->as<method_object>();
  return truth(rt, bound.call(rt, bound.self, {}));
}

bool is_lower_text(runtime& rt, const value& v, const call_arguments& arguments) {
  no_arguments(arguments);
  return ask_text(rt, v, "islower");
}

bool is_upper_text(runtime& rt, const value& v, const call_arguments& arguments) {
  no_arguments(arguments);
  return ask_text(rt, v, "isupper");
}

bool is_filter_name(runtime& rt, const value& v, const call_arguments& arguments) {
  no_arguments(arguments);
  if (!v.is_string()) (void)hash_of(rt, v);
  return v.is_string() && find_filter(v.text()) != nullptr;
}

bool is_test_name(runtime& rt, const value& v, const call_arguments& arguments) {
  no_arguments(arguments);
  if (!v.is_string()) (void)hash_of(rt, v);
  return v.is_string() && find_test(v.text()) != nullptr;
}

constexpr test_entry test_entries[] = {
    {"defined", is_defined},
    {"undefined", is_type<value_type::undefined>},
    {"none", is_type<value_type::none>},
    {"boolean", is_type<value_type::boolean>},
    {"true", is_flag<true>},
    {"false", is_flag<false>},
    {"integer", is_type<value_type::integer>},
    {"float", is_type<value_type::real>},
    {"number", is_number},
    {"string", is_type<value_type::string>},
    {"mapping", is_type<value_type::dict>},
    {"sequence", is_sequence},
    {"iterable", is_iterable_value},
    {"callable", is_callable},
    {"escaped", is_escaped},
    {"odd", has_parity<1>},
    {"even", has_parity<0>},
    {"divisibleby", is_divisible},
    {"lower", is_lower_text},
    {"upper", is_upper_text},
    {"sameas", is_same},
    {"in", is_in},
    {"filter", is_filter_name},
    {"test", is_test_name},
    {"==", compares<comparison::equal>},
    {"eq", compares<comparison::equal>},
    {"equalto", compares<comparison::equal>},
    {"!=", compares<comparison::not_equal>},
    {"ne", compares<comparison::not_equal>},
    {">", compares<comparison::greater>},
    {"gt", compares<comparison::greater>},
    {"greaterthan", compares<comparison::greater>},
    {">=", compares<comparison::greater_equal>},
    {"ge", compares<comparison::greater_equal>},
    {"<", compares<comparison::less>},
    {"lt", compares<comparison::less>},
    {"lessthan", compares<comparison::less>},
    {"<=", compares<comparison::less_equal>},
    {"le", compares<comparison::less_equal>},
};

} // namespace

const test_entry* find_test(std::string_view name) {
  const auto* found = std::find_if(std::begin(test_entries), std::end(test_entries),
                                   [&](const test_entry& entry) { return entry.name == name; });
  return found == std::end(test_entries) ? nullptr : found;
}

} // namespace paceline::tokenizer::jinja
