#pragma once

#include "runtime/tokenizer/chat_template/syntax/ast.hpp"

namespace paceline::tokenizer::jinja {

template <class... Handlers>
struct overloaded : Handlers... {
  using Handlers::operator()...;
};
template <class... Handlers>
overloaded(Handlers...) -> overloaded<Handlers...>;

/// Calls `visit(expression&)` for each given argument.
template <class Arguments, class Visit>
void for_each_argument(Arguments& arguments, Visit visit) {
  for (auto& argument : arguments.positional) visit(*argument);
  for (auto& [name, argument] : arguments.named) visit(*argument);
  if (arguments.rest_positional) visit(*arguments.rest_positional);
  if (arguments.rest_named) visit(*arguments.rest_named);
}

/// Calls `visit(expression&)` for each direct subexpression of `e`. `e` may be const.
template <class Expression, class Visit>
void for_each_child(Expression& e, Visit visit) {
  const auto maybe = [&](auto& part) {
    if (part) visit(*part);
  };
  std::visit(overloaded{
                 [](auto&) {},
                 [&](decltype((std::get<attribute_expression>(e.node))) n) { visit(*n.object); },
                 [&](decltype((std::get<item_expression>(e.node))) n) { visit(*n.object), visit(*n.key); },
                 [&](decltype((std::get<slice_expression>(e.node))) n) {
                   visit(*n.object), maybe(n.start), maybe(n.stop), maybe(n.step);
                 },
                 [&](decltype((std::get<call_expression>(e.node))) n) {
                   visit(*n.callee), for_each_argument(n.arguments, visit);
                 },
                 [&](decltype((std::get<filter_expression>(e.node))) n) {
                   maybe(n.operand), for_each_argument(n.arguments, visit);
                 },
                 [&](decltype((std::get<test_expression>(e.node))) n) {
                   visit(*n.operand), for_each_argument(n.arguments, visit);
                 },
                 [&](decltype((std::get<unary_expression>(e.node))) n) { visit(*n.operand); },
                 [&](decltype((std::get<binary_chain>(e.node))) n) {
                   visit(*n.first);
                   for (auto& [op, operand] : n.rest) visit(*operand);
                 },
                 [&](decltype((std::get<concatenation>(e.node))) n) {
                   for (auto& part : n.parts) visit(*part);
                 },
                 [&](decltype((std::get<comparison_chain>(e.node))) n) {
                   visit(*n.first);
                   for (auto& [op, operand] : n.rest) visit(*operand);
                 },
                 [&](decltype((std::get<logical_chain>(e.node))) n) {
                   for (auto& operand : n.operands) visit(*operand);
                 },
                 [&](decltype((std::get<conditional_expression>(e.node))) n) {
                   visit(*n.test), visit(*n.if_true), maybe(n.if_false);
                 },
                 [&](decltype((std::get<sequence_expression>(e.node))) n) {
                   for (auto& item : n.items) visit(*item);
                 },
                 [&](decltype((std::get<dict_expression>(e.node))) n) {
                   for (auto& [key, item] : n.entries) visit(*key), visit(*item);
                 },
             },
             e.node);
}

} // namespace paceline::tokenizer::jinja
