#include "runtime/tokenizer/chat_template/syntax/expression_parser.hpp"

#include "runtime/tokenizer/chat_template/syntax/make_expression.hpp"

#include <algorithm>
#include <optional>

namespace paceline::tokenizer::jinja {

namespace {

std::optional<comparison> comparison_symbol(const token& t) {
  if (t.kind != token_kind::op) return std::nullopt;
  if (t.text == "==") return comparison::equal;
  if (t.text == "!=") return comparison::not_equal;
  if (t.text == "<") return comparison::less;
  if (t.text == "<=") return comparison::less_equal;
  if (t.text == ">") return comparison::greater;
  if (t.text == ">=") return comparison::greater_equal;
  return std::nullopt;
}

std::optional<binary_operator> sum_symbol(const token& t) {
  if (t.is_op("+")) return binary_operator::add;
  if (t.is_op("-")) return binary_operator::subtract;
  return std::nullopt;
}

std::optional<binary_operator> product_symbol(const token& t) {
  if (t.is_op("*")) return binary_operator::multiply;
  if (t.is_op("/")) return binary_operator::divide;
  if (t.is_op("//")) return binary_operator::floor_divide;
  if (t.is_op("%")) return binary_operator::modulo;
  return std::nullopt;
}

std::optional<binary_operator> power_symbol(const token& t) {
  return t.is_op("**") ? std::optional(binary_operator::power) : std::nullopt;
}

} // namespace

expression_parser::level::level(expression_parser& parser) : parser_(parser) {
  if (parser.depth_ >= max_depth) parser.fail_here("the template is nested deeper than 100 levels");
  ++parser.depth_;
}

const token& expression_parser::next() {
  const token& passed = tokens_[at_];
  if (at_ + 1 < tokens_.size()) ++at_;
  return passed;
}

bool expression_parser::skip_op(std::string_view symbol) {
  if (!current().is_op(symbol)) return false;
  next();
  return true;
}

bool expression_parser::skip_name(std::string_view word) {
  if (!current().is_name(word)) return false;
  next();
  return true;
}

void expression_parser::expect_op(std::string_view symbol) {
  if (!skip_op(symbol)) fail_expected(symbol);
}

void expression_parser::expect_kind(token_kind kind, std::string_view what) {
  if (current().kind != kind) fail_expected(what);
  next();
}

std::string expression_parser::expect_name() {
  if (current().kind != token_kind::name) fail_expected("name");
  return next().text;
}

void expression_parser::fail_here(std::string message) const { fail_at(current().line, std::move(message)); }

void expression_parser::fail_expected(std::string_view what) const {
  if (current().kind == token_kind::end)
    fail_here("unexpected end of template, expected '" + std::string(what) + "'");
  fail_here("expected token '" + std::string(what) + "', got '" + describe(current()) + "'");
}

expression_ptr expression_parser::parse_expression(conditionals allowed) {
  const level nested(*this);
  return allowed == conditionals::allowed ? parse_conditional() : parse_or();
}

bool expression_parser::at_tuple_end(std::string_view end_word) const {
  const token& t = current();
  return t.kind == token_kind::variable_end || t.kind == token_kind::block_end || t.is_op(")") ||
         (!end_word.empty() && t.is_name(end_word));
}

expression_ptr expression_parser::parse_tuple(conditionals allowed, std::string_view end_word,
                                              bool in_parentheses) {
  int line = current().line;
  sequence_expression tuple;
  tuple.is_tuple = true;
  bool is_tuple = false;
  while (!at_tuple_end(end_word)) {
    tuple.items.push_back(parse_expression(allowed));
    if (!current().is_op(",")) break;
    is_tuple = true;
    line = current().line;
    next();
  }
  if (!is_tuple) {
    if (!tuple.items.empty()) return std::move(tuple.items.front());
    if (!in_parentheses) fail_here("expected an expression, got '" + describe(current()) + "'");
  }
  return make(line, std::move(tuple));
}

expression_ptr expression_parser::parse_conditional() {
  int line = current().line;
  expression_ptr result = parse_or();
  while (skip_name("if")) {
    conditional_expression node;
    node.test = parse_or();
    if (skip_name("else")) {
      const level nested(*this);
      node.if_false = parse_conditional();
    }
    node.if_true = std::move(result);
    result = make(line, std::move(node));
    line = current().line;
  }
  return result;
}

expression_ptr expression_parser::parse_or() {
  const int line = current().line;
  logical_chain chain;
  chain.is_or = true;
  do {
    chain.operands.push_back(parse_and());
  } while (skip_name("or"));
  return chain.operands.size() == 1 ? std::move(chain.operands.front()) : make(line, std::move(chain));
}

expression_ptr expression_parser::parse_and() {
  const int line = current().line;
  logical_chain chain;
  do {
    chain.operands.push_back(parse_not());
  } while (skip_name("and"));
  return chain.operands.size() == 1 ? std::move(chain.operands.front()) : make(line, std::move(chain));
}

expression_ptr expression_parser::parse_not() {
  if (!current().is_name("not")) return parse_comparison();
  const level nested(*this);
  const int line = next().line;
  return make(line, unary_expression{unary_operator::logical_not, parse_not()});
}

expression_ptr expression_parser::parse_comparison() {
  const int line = current().line;
  comparison_chain chain;
  chain.first = parse_sum();
  for (;;) {
    comparison op = comparison::in;
    if (const auto symbol = comparison_symbol(current())) {
      op = *symbol;
      next();
    } else if (current().is_name("not") && peek().is_name("in")) {
      op = comparison::not_in;
      next();
      next();
    } else if (!skip_name("in")) {
      break;
    }
    chain.rest.emplace_back(op, parse_sum());
  }
  return chain.rest.empty() ? std::move(chain.first) : make(line, std::move(chain));
}

template <class Operator>
expression_ptr expression_parser::parse_binary(expression_ptr (expression_parser::*operand)(),
                                               Operator operator_of) {
  const int line = current().line;
  binary_chain chain;
  chain.first = (this->*operand)();
  while (const auto op = operator_of(current())) {
    next();
    chain.rest.emplace_back(*op, (this->*operand)());
  }
  return chain.rest.empty() ? std::move(chain.first) : make(line, std::move(chain));
}

expression_ptr expression_parser::parse_sum() {
  return parse_binary(&expression_parser::parse_concatenation, sum_symbol);
}

expression_ptr expression_parser::parse_concatenation() {
  const int line = current().line;
  concatenation node;
  do {
    node.parts.push_back(parse_product());
  } while (skip_op("~"));
  return node.parts.size() == 1 ? std::move(node.parts.front()) : make(line, std::move(node));
}

expression_ptr expression_parser::parse_product() {
  return parse_binary(&expression_parser::parse_power, product_symbol);
}

expression_ptr expression_parser::parse_power() {
  // Powers are evaluated from left to right, unlike in Python.
  return parse_binary(&expression_parser::parse_factor, power_symbol);
}

expression_ptr expression_parser::parse_factor() { return parse_unary(true); }

expression_ptr expression_parser::parse_unary(bool with_filters) {
  const int line = current().line;
  expression_ptr node;
  if (current().is_op("-") || current().is_op("+")) {
    const level nested(*this);
    const auto op = next().text == "-" ? unary_operator::negate : unary_operator::plus;
    node = make(line, unary_expression{op, parse_unary(false)});
  } else {
    node = parse_primary();
  }
  node = parse_postfix(std::move(node));
  return with_filters ? parse_filters_and_tests(std::move(node)) : std::move(node);
}

expression_ptr expression_parser::parse_primary() {
  const token& t = current();
  const int line = t.line;
  switch (t.kind) {
  case token_kind::string:
    return parse_string();
  case token_kind::integer:
    return make(line, number_constant(value::of_integer(next().integer)));
  case token_kind::real:
    return make(line, number_constant(value::of_real(next().real)));
  case token_kind::name:
    next();
    if (t.text == "true" || t.text == "True") return make(line, number_constant(value::of(true)));
    if (t.text == "false" || t.text == "False") return make(line, number_constant(value::of(false)));
    if (t.text == "none" || t.text == "None") return make(line, number_constant(value::none()));
    return make(line, name_expression{t.text, {}});
  case token_kind::op:
    if (t.text == "[") return parse_list();
    if (t.text == "{") return parse_dict();
    if (t.text == "(") {
      const level nested(*this);
      next();
      expression_ptr inside = parse_tuple(conditionals::allowed, {}, true);
      expect_op(")");
      return inside;
    }
    break;
  default:
    break;
  }
  fail_here("unexpected '" + describe(t) + "'");
}

expression_ptr expression_parser::parse_string() {
  constant c;
  c.is_text = true;
  const int line = current().line;
  while (current().kind == token_kind::string) c.text += next().text; // adjacent strings are one string
  return make(line, std::move(c));
}

expression_ptr expression_parser::parse_list() {
  const level nested(*this);
  const int line = next().line;
  sequence_expression list;
  while (!current().is_op("]")) {
    if (!list.items.empty()) {
      expect_op(",");
      if (current().is_op("]")) break;
    }
    list.items.push_back(parse_expression());
  }
  expect_op("]");
  return make(line, std::move(list));
}

expression_ptr expression_parser::parse_dict() {
  const level nested(*this);
  const int line = next().line;
  dict_expression dict;
  while (!current().is_op("}")) {
    if (!dict.entries.empty()) {
      expect_op(",");
      if (current().is_op("}")) break;
    }
    expression_ptr key = parse_expression();
    expect_op(":");
    dict.entries.emplace_back(std::move(key), parse_expression());
  }
  expect_op("}");
  return make(line, std::move(dict));
}

} // namespace paceline::tokenizer::jinja
