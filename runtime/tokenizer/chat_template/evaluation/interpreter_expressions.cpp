#include "runtime/tokenizer/chat_template/evaluation/filters.hpp"
#include "runtime/tokenizer/chat_template/evaluation/interpreter.hpp"
#include "runtime/tokenizer/chat_template/evaluation/tests.hpp"
#include "runtime/tokenizer/chat_template/python/attributes.hpp"
#include "runtime/tokenizer/chat_template/python/printing.hpp"

#include <algorithm>

/// The interpreter's expressions. Each one sets `line_` again after it has evaluated its parts, because these
/// may have called a macro elsewhere.
namespace paceline::tokenizer::jinja {

value interpreter::eval(const expression& e) {
  rt_.memory.step();
  if (levels_ >= max_levels) fail_limit("the template nests too deeply");
  const scoped_value<int> deeper(levels_, levels_ + 1);
  return std::visit([&](const auto& node) { return eval_node(node, e.line); }, e.node);
}

value interpreter::eval_node(const constant& node, int) {
  return node.is_text ? value::of_text(node.text) : node.number;
}

value interpreter::eval_node(const name_expression& node, int) {
  const value& v = slot(node.where);
  return v.is_missing() ? value::undefined(undefined_reason::variable, node.name) : v;
}

value interpreter::eval_node(const attribute_expression& node, int line) {
  const value object = eval(*node.object);
  line_ = line;
  return get_attribute(rt_, object, node.name);
}

value interpreter::eval_node(const item_expression& node, int line) {
  const value object = eval(*node.object);
  const value key = eval(*node.key);
  line_ = line;
  return get_item(rt_, object, key);
}

value interpreter::eval_node(const slice_expression& node, int line) {
  const value object = eval(*node.object);
  const auto bound = [&](const expression_ptr& part) { return part ? eval(*part) : value::none(); };
  const value start = bound(node.start), stop = bound(node.stop), step = bound(node.step);
  line_ = line;
  return get_slice(rt_, object, start, stop, step);
}

void interpreter::eval_arguments(const argument_list& list, call_arguments& arguments) {
  for (const auto& argument : list.positional) arguments.positional.push_back(eval(*argument));
  if (list.rest_positional) {
    const auto rest = collect(rt_, eval(*list.rest_positional));
    arguments.positional.insert(arguments.positional.end(), rest.begin(), rest.end());
  }
  for (const auto& [name, argument] : list.named) arguments.named.emplace_back(name, eval(*argument));
  if (!list.rest_named) return;
  const value rest = eval(*list.rest_named);
  require_defined(rt_, rest);
  if (!rest.is(value_type::dict))
    fail("argument after ** must be a mapping, not " + std::string(type_name(rest)));
  for (const auto& [key, v] : rest.as<dict_object>().entries()) {
    const std::string_view name = require_text(rt_, key, "a keyword");
    const bool repeated = std::any_of(arguments.named.begin(), arguments.named.end(),
                                      [&](const auto& given) { return given.first == name; });
    if (repeated) fail("got multiple values for keyword argument '" + std::string(name) + "'");
    rt_.memory.step(arguments.named.size() + 1);
    arguments.named.emplace_back(name, v);
  }
}

value interpreter::eval_node(const call_expression& node, int line) { return eval_call(node, line, nullptr); }

value interpreter::eval_call(const call_expression& node, int line, const value* caller) {
  const value callee = eval(*node.callee);
  call_arguments arguments;
  eval_arguments(node.arguments, arguments);
  if (caller != nullptr) {
    const bool repeated = std::any_of(arguments.named.begin(), arguments.named.end(),
                                      [](const auto& given) { return given.first == "caller"; });
    if (repeated) fail("got multiple values for keyword argument 'caller'");
    arguments.named.emplace_back("caller", *caller);
  }
  line_ = line;
  return call(callee, arguments);
}

value interpreter::eval_node(const filter_expression& node, int line) {
  const value operand = node.operand ? eval(*node.operand) : *block_text_;
  call_arguments arguments;
  eval_arguments(node.arguments, arguments);
  line_ = line;
  if (node.entry == nullptr) fail("No filter named '" + node.name + "' found.");
  return node.entry->call(rt_, operand, arguments);
}

value interpreter::eval_node(const test_expression& node, int line) {
  const value operand = eval(*node.operand);
  call_arguments arguments;
  eval_arguments(node.arguments, arguments);
  line_ = line;
  if (node.entry == nullptr) fail("No test named '" + node.name + "' found.");
  return value::of(node.entry->call(rt_, operand, arguments));
}

value interpreter::eval_node(const unary_expression& node, int line) {
  const value operand = eval(*node.operand);
  line_ = line;
  if (node.op == unary_operator::logical_not) return value::of(!truth(rt_, operand));
  require_defined(rt_, operand);
  return node.op == unary_operator::negate ? negate(operand) : plus(operand);
}

value interpreter::eval_node(const binary_chain& node, int line) {
  value result = eval(*node.first);
  for (const auto& [op, operand] : node.rest) {
    const value right = eval(*operand);
    line_ = line;
    result = binary(rt_, op, result, right);
  }
  return result;
}

value interpreter::eval_node(const concatenation& node, int line) {
  std::vector<value> parts;
  for (const auto& part : node.parts) parts.push_back(eval(*part));
  line_ = line;
  std::string text;
  for (const value& part : parts) append_str(rt_, text, part);
  return rt_.memory.keep(std::move(text));
}

value interpreter::eval_node(const comparison_chain& node, int line) {
  value left = eval(*node.first);
  for (const auto& [op, operand] : node.rest) {
    const value right = eval(*operand);
    line_ = line;
    if (!compare(rt_, op, left, right)) return value::of(false);
    left = right;
  }
  return value::of(true);
}

value interpreter::eval_node(const logical_chain& node, int) {
  value result;
  for (const auto& operand : node.operands) {
    result = eval(*operand);
    if (truth(rt_, result) == node.is_or) break;
  }
  return result;
}

value interpreter::eval_node(const conditional_expression& node, int line) {
  if (is_true(*node.test)) return eval(*node.if_true);
  if (node.if_false) return eval(*node.if_false);
  return rt_.memory.undefined("the inline if-expression on line " + std::to_string(line) +
                              " evaluated to false and no else section was defined.");
}

value interpreter::eval_node(const sequence_expression& node, int) {
  std::vector<value> items;
  items.reserve(node.items.size());
  for (const auto& item : node.items) items.push_back(eval(*item));
  return node.is_tuple ? rt_.memory.tuple(std::move(items)) : rt_.memory.list(std::move(items));
}

value interpreter::eval_node(const dict_expression& node, int line) {
  auto& made = rt_.memory.make<dict_object>();
  for (const auto& [key, item] : node.entries) {
    const value k = eval(*key), v = eval(*item);
    line_ = line;
    made.set(rt_, k, v);
  }
  return rt_.memory.dict(made);
}

} // namespace paceline::tokenizer::jinja
