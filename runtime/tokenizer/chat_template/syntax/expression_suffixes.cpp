#include "runtime/tokenizer/chat_template/syntax/expression_parser.hpp"
#include "runtime/tokenizer/chat_template/syntax/make_expression.hpp"

#include <algorithm>

/// What may follow an operand: attributes, items, calls, filters and tests.
namespace paceline::tokenizer::jinja {

namespace {

bool starts_test_argument(const token& t) {
  switch (t.kind) {
  case token_kind::string:
  case token_kind::integer:
  case token_kind::real:
    return true;
  case token_kind::name:
    return t.text != "else" && t.text != "or" && t.text != "and";
  case token_kind::op:
    return t.text == "[" || t.text == "{";
  default:
    return false;
  }
}

} // namespace

expression_ptr expression_parser::parse_postfix(expression_ptr operand) {
  for (;;) {
    if (current().is_op(".") || current().is_op("["))
      operand = parse_subscript(std::move(operand));
    else if (current().is_op("("))
      operand = parse_call(std::move(operand));
    else
      return operand;
  }
}

expression_ptr expression_parser::parse_filters_and_tests(expression_ptr operand) {
  for (;;) {
    if (current().is_op("|"))
      operand = parse_filters(std::move(operand));
    else if (current().is_name("is"))
      operand = parse_test(std::move(operand));
    else if (current().is_op("("))
      operand = parse_call(std::move(operand));
    else
      return operand;
  }
}

expression_ptr expression_parser::parse_subscript(expression_ptr object) {
  const int line = current().line;
  if (skip_op(".")) {
    const token& t = next();
    if (t.kind == token_kind::name) return make(line, attribute_expression{std::move(object), t.text});
    if (t.kind != token_kind::integer) fail_at(t.line, "expected name or number");
    return make(line, item_expression{std::move(object),
                                      make(t.line, number_constant(value::of_integer(t.integer)))});
  }
  const level nested(*this);
  expect_op("[");
  std::vector<expression_ptr> keys;
  while (!current().is_op("]")) {
    if (!keys.empty()) expect_op(",");
    if (expression_ptr slice = parse_subscribed(object, line)) {
      keys.push_back(std::move(slice));
      if (object == nullptr) {
        expect_op("]");
        return std::move(keys.front());
      }
    }
  }
  expect_op("]");
  if (keys.size() == 1) return make(line, item_expression{std::move(object), std::move(keys.front())});
  return make(line,
              item_expression{std::move(object), make(line, sequence_expression{true, std::move(keys)})});
}

/// Parses one key, or a whole slice, which takes `object` and must be alone between the brackets.
expression_ptr expression_parser::parse_subscribed(expression_ptr& object, int line) {
  slice_expression slice;
  const auto at_end = [&] { return current().is_op("]") || current().is_op(",") || current().is_op(":"); };
  if (!current().is_op(":")) {
    slice.start = parse_expression();
    if (!current().is_op(":")) return std::move(slice.start);
  }
  next();
  if (!at_end()) slice.stop = parse_expression();
  if (skip_op(":") && !at_end()) slice.step = parse_expression();
  if (!current().is_op("]")) fail_here("a slice must be the only key");
  slice.object = std::move(object);
  return make(line, std::move(slice));
}

expression_ptr expression_parser::parse_call(expression_ptr callee) {
  const int line = current().line;
  return make(line, call_expression{std::move(callee), parse_arguments()});
}

argument_list expression_parser::parse_arguments() {
  const level nested(*this);
  const int line = current().line;
  argument_list list;
  const auto ensure = [&](bool good) {
    if (!good) fail_at(line, "invalid syntax for function call expression");
  };
  expect_op("(");
  for (bool first = true; !current().is_op(")"); first = false) {
    if (!first) {
      expect_op(",");
      if (current().is_op(")")) break;
    }
    if (skip_op("*")) {
      ensure(!list.rest_positional && !list.rest_named);
      list.rest_positional = parse_expression();
    } else if (skip_op("**")) {
      ensure(!list.rest_named);
      list.rest_named = parse_expression();
    } else if (current().kind == token_kind::name && peek().is_op("=")) {
      ensure(!list.rest_named);
      std::string name = next().text;
      next();
      const bool repeated = std::any_of(list.named.begin(), list.named.end(),
                                        [&](const auto& entry) { return entry.first == name; });
      if (repeated) fail_at(line, "keyword argument repeated: " + name);
      list.named.emplace_back(std::move(name), parse_expression());
    } else {
      ensure(!list.rest_positional && !list.rest_named && list.named.empty());
      list.positional.push_back(parse_expression());
    }
  }
  expect_op(")");
  return list;
}

std::string expression_parser::parse_dotted_name() {
  std::string name = expect_name();
  while (skip_op(".")) name += "." + expect_name();
  return name;
}

expression_ptr expression_parser::parse_filters(expression_ptr operand, bool start_inline) {
  while (start_inline || current().is_op("|")) {
    if (!start_inline) next();
    start_inline = false;
    const int line = current().line;
    filter_expression filter;
    filter.name = parse_dotted_name();
    if (current().is_op("(")) filter.arguments = parse_arguments();
    filter.operand = std::move(operand);
    operand = make(line, std::move(filter));
  }
  return operand;
}

expression_ptr expression_parser::parse_test(expression_ptr operand) {
  const int line = next().line;
  const bool negated = skip_name("not");
  test_expression test;
  test.operand = std::move(operand);
  test.name = parse_dotted_name();
  if (current().is_op("(")) {
    test.arguments = parse_arguments();
  } else if (starts_test_argument(current())) {
    if (current().is_name("is")) fail_here("You cannot chain multiple tests with is");
    const level nested(*this);
    test.arguments.positional.push_back(parse_postfix(parse_primary()));
  }
  expression_ptr result = make(line, std::move(test));
  return negated ? make(line, unary_expression{unary_operator::logical_not, std::move(result)})
                 : std::move(result);
}

} // namespace paceline::tokenizer::jinja
