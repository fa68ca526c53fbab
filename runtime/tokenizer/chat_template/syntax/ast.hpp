#pragma once

#include "runtime/tokenizer/chat_template/python/operators.hpp"

#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

/// A parsed template. The parser builds the tree, and `resolve_names` determines the variable of each name.
/// The interpreter does not change the tree, so several threads can render it at the same time.
namespace paceline::tokenizer::jinja {

struct expression;
struct statement;
struct filter_entry;
struct test_entry;
using expression_ptr = std::unique_ptr<expression>;
using block = std::vector<std::unique_ptr<statement>>;

/// Location of a variable: slot `slot` of the function that is `hops` levels outside the running one.
struct variable {
  int hops = 0;
  int slot = -1;
};

// ---- expressions

struct constant {
  value number;     ///< for all types except strings
  std::string text; ///< for strings
  bool is_text = false;
};
struct name_expression {
  std::string name;
  variable where;
};
struct attribute_expression {
  expression_ptr object;
  std::string name;
};
struct item_expression {
  expression_ptr object, key;
};
struct slice_expression {
  expression_ptr object, start, stop, step; ///< null: omitted
};
struct argument_list {
  std::vector<expression_ptr> positional;
  std::vector<std::pair<std::string, expression_ptr>> named;
  expression_ptr rest_positional, rest_named; ///< *rest, **rest; may be null
};
struct call_expression {
  expression_ptr callee;
  argument_list arguments;
};
struct filter_expression {
  expression_ptr operand; ///< null: the text of the enclosing {% filter %} or {% set %} block
  std::string name;
  argument_list arguments;
  const filter_entry* entry = nullptr; ///< null: no such filter, which is an error when it is evaluated
};
struct test_expression {
  expression_ptr operand;
  std::string name;
  argument_list arguments;
  const test_entry* entry = nullptr; ///< null: no such test, which is an error when it is evaluated
};
enum class unary_operator : std::uint8_t { negate, plus, logical_not };
struct unary_expression {
  unary_operator op = unary_operator::plus;
  expression_ptr operand;
};
/// Operators of one precedence, applied from left to right.
struct binary_chain {
  expression_ptr first;
  std::vector<std::pair<binary_operator, expression_ptr>> rest;
};
struct concatenation {
  std::vector<expression_ptr> parts;
};
/// a < b <= c: every operand is evaluated at most once.
struct comparison_chain {
  expression_ptr first;
  std::vector<std::pair<comparison, expression_ptr>> rest;
};
struct logical_chain {
  bool is_or = false;
  std::vector<expression_ptr> operands;
};
struct conditional_expression {
  expression_ptr test, if_true, if_false; ///< `if_false` may be null: undefined
};
struct sequence_expression {
  bool is_tuple = false;
  std::vector<expression_ptr> items;
};
struct dict_expression {
  std::vector<std::pair<expression_ptr, expression_ptr>> entries;
};

struct expression {
  int line = 0;
  int height = 1; ///< levels of nested expressions, this one included
  std::variant<constant, name_expression, attribute_expression, item_expression, slice_expression,
               call_expression, filter_expression, test_expression, unary_expression, binary_chain,
               concatenation, comparison_chain, logical_chain, conditional_expression, sequence_expression,
               dict_expression>
      node;
};

// ---- results of the name resolution

enum class load_action : std::uint8_t {
  resolve,   ///< look the name up in the template's variables
  alias,     ///< copy the variable of that name from an outer scope
  undefined, ///< no value yet
};
struct load {
  int slot = -1;
  load_action action = load_action::undefined;
  std::string name;
  variable source;
};
/// How the slots of the running function change when a scope is entered.
struct scope_entry {
  std::vector<load> loads;
  std::vector<int> owned_slots; ///< cleared when the scope is left
};
/// A function: a part of the template with slots of its own. Functions are the template itself, macros, the
/// bodies of {% call %} and {% generation %}, recursive loops, conditions of loops, and {% block %} blocks.
struct function_frame {
  int num_slots = 0;
};

// ---- statements

struct target {
  enum class kind : std::uint8_t { name, tuple, namespace_attribute };
  kind what = kind::name;
  int line = 0;
  std::string name;
  variable where;
  std::string attribute;
  std::vector<target> parts;
  bool exported = false; ///< the variable is set at the top level, so blocks can see it
};

struct output_part {
  std::string text; ///< literal text if there is no expression
  expression_ptr shown;
};
struct output_statement {
  std::vector<output_part> parts;
};
struct for_statement {
  target loop_target, test_target; ///< the same names, in the scope of the body and in that of the test
  expression_ptr iterable, test;   ///< `test` may be null
  block body, otherwise;
  bool recursive = false;
  int loop_slot = -1;
  function_frame frame, test_frame; ///< `frame` for recursive loops only
  scope_entry body_scope, test_scope, else_scope;
};
struct if_statement {
  std::vector<std::pair<expression_ptr, block>> branches;
  block otherwise;
};
struct parameter {
  std::string name;
  expression_ptr fallback; ///< may be null
  int line = 0;
  int slot = -1;
};
/// The common part of {% macro %}, {% call %} and {% generation %}: a body with parameters.
struct macro_body {
  std::string name;
  std::vector<parameter> parameters;
  block body;
  function_frame frame;
  scope_entry scope;
  int caller_slot = -1, kwargs_slot = -1, varargs_slot = -1; ///< -1: not used by the body
  bool explicit_caller = false;
};
struct macro_statement {
  macro_body macro;
  target where;
};
struct call_statement {
  macro_body macro;
  expression_ptr call; ///< a call_expression
};
struct generation_statement {
  macro_body macro;
};
struct filter_statement {
  expression_ptr filter;
  block body;
  scope_entry scope;
};
struct with_statement {
  std::vector<std::pair<target, expression_ptr>> assignments;
  block body;
  scope_entry scope;
};
struct set_statement {
  target where;
  expression_ptr assigned;
};
struct set_block_statement {
  target where;
  expression_ptr filter; ///< may be null
  block body;
  scope_entry scope;
};
struct block_statement {
  std::string name;
  bool scoped = false, required = false;
  block body;
  function_frame frame;
  scope_entry scope;
  int self_slot = -1;
  std::vector<std::pair<std::string, variable>> visible; ///< for a scoped block: the names that it can see
};
struct break_statement {};
struct continue_statement {};

struct statement {
  int line = 0;
  std::variant<output_statement, for_statement, if_statement, macro_statement, call_statement,
               generation_statement, filter_statement, with_statement, set_statement, set_block_statement,
               block_statement, break_statement, continue_statement>
      node;
};

struct template_tree {
  block body;
  function_frame frame;
  scope_entry scope;
  int self_slot = -1;
  std::vector<const block_statement*> blocks;
};

} // namespace paceline::tokenizer::jinja
