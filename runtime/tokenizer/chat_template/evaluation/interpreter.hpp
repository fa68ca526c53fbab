#pragma once

#include "runtime/tokenizer/chat_template/evaluation/loops.hpp"
#include "runtime/tokenizer/chat_template/evaluation/scoped_value.hpp"
#include "runtime/tokenizer/chat_template/python/operators.hpp"
#include "runtime/tokenizer/chat_template/syntax/ast.hpp"

#include <string>
#include <vector>

namespace paceline::tokenizer::jinja {

/// The variable slots of a running function of the template (`function_frame`). A macro keeps the activation
/// of the function in which it was defined.
struct activation final : object {
  std::vector<value> slots;
  activation* outer = nullptr;
};

struct macro_object final : object {
  const macro_body* body = nullptr;
  activation* closure = nullptr;
  std::string describe(runtime& rt) override;
  std::optional<value> attribute(runtime& rt, std::string_view name) override;
};

/// Renders a parsed template once. The stack cannot overflow: the parser limits the depth of the tree,
/// `max_call_depth` limits nested calls, and `max_levels` limits the nested statements and expressions of all
/// calls together.
class interpreter {
 public:
  /// `variables` and `tree` must outlive the interpreter.
  interpreter(const template_tree& tree, runtime& rt, const dict_object& variables)
      : tree_(tree), rt_(rt), variables_(variables) {}

  /// Returns the rendered text. Throws `failure`; `line()` is then the line where it failed.
  std::string run();
  int line() const { return line_; }

 private:
  friend class filtered_source;
  friend struct block_object;
  friend struct template_object;

  enum class flow : std::uint8_t { normal, break_loop, continue_loop };

  // statements
  flow run_block(const block& body);
  flow run_statement(const statement& s);
  flow run_node(const output_statement& node);
  flow run_node(const for_statement& node);
  flow run_node(const if_statement& node);
  flow run_node(const macro_statement& node);
  flow run_node(const call_statement& node);
  flow run_node(const generation_statement& node);
  flow run_node(const filter_statement& node);
  flow run_node(const with_statement& node);
  flow run_node(const set_statement& node);
  flow run_node(const set_block_statement& node);
  flow run_node(const block_statement& node);
  flow run_node(const break_statement&) { return flow::break_loop; }
  flow run_node(const continue_statement&) { return flow::continue_loop; }

  flow run_loop(const for_statement& node, const value& iterable, activation* test_closure,
                loop_object& loop);
  value run_recursive_loop(const for_statement& node, const value& iterable, activation* closure,
                           wide_int depth0);
  std::string run_named_block(const block_statement& node, const dict_object* locals);
  const block_statement* find_block(std::string_view name) const;

  void enter(const scope_entry& scope);
  void leave(const scope_entry& scope);
  void assign(const target& where, const value& assigned);
  void require_namespaces(const target& where);
  void write(std::string_view text);
  void write_text_only(const value& v);

  // expressions
  value eval(const expression& e);
  value eval_node(const constant& node, int line);
  value eval_node(const name_expression& node, int line);
  value eval_node(const attribute_expression& node, int line);
  value eval_node(const item_expression& node, int line);
  value eval_node(const slice_expression& node, int line);
  value eval_node(const call_expression& node, int line);
  value eval_node(const filter_expression& node, int line);
  value eval_node(const test_expression& node, int line);
  value eval_node(const unary_expression& node, int line);
  value eval_node(const binary_chain& node, int line);
  value eval_node(const concatenation& node, int line);
  value eval_node(const comparison_chain& node, int line);
  value eval_node(const logical_chain& node, int line);
  value eval_node(const conditional_expression& node, int line);
  value eval_node(const sequence_expression& node, int line);
  value eval_node(const dict_expression& node, int line);
  value eval_call(const call_expression& node, int line, const value* caller);
  void eval_arguments(const argument_list& list, call_arguments& arguments);
  bool is_true(const expression& e) { return truth(rt_, eval(e)); }

  // calls
  value call(const value& callee, const call_arguments& arguments);
  value make_macro(const macro_body& body);
  value call_macro(const value& callee, const call_arguments& arguments);

  value read(const target& where);
  value& slot(const variable& where);
  value resolve(std::string_view name);

  /// Runs `body` and captures its output.
  template <class Body>
  std::string captured(Body body);
  /// Runs `body` in a new activation of `frame`, inside `closure`.
  template <class Body>
  auto in_function(const function_frame& frame, activation* closure, Body body);

  static constexpr int max_levels = 2000;

  const template_tree& tree_;
  runtime& rt_;
  const dict_object& variables_;
  dict_object* exported_ = nullptr;           ///< variables set at the top level, for blocks
  const dict_object* block_locals_ = nullptr; ///< the variables that a scoped block can see
  const value* block_text_ = nullptr;         ///< the text to which a filter without an operand applies
  activation* here_ = nullptr;
  std::string output_;
  std::string* out_ = &output_;
  int line_ = 1;
  int call_depth_ = 0;
  int levels_ = 0;
};

template <class Body>
std::string interpreter::captured(Body body) {
  std::string text;
  const scoped_value<std::string*> redirected(out_, &text);
  body();
  return text;
}

template <class Body>
auto interpreter::in_function(const function_frame& frame, activation* closure, Body body) {
  rt_.memory.charge(static_cast<std::size_t>(frame.num_slots) * sizeof(value));
  auto& made = rt_.memory.make<activation>();
  made.slots.resize(static_cast<std::size_t>(frame.num_slots));
  made.outer = closure;
  const scoped_value<activation*> entered(here_, &made);
  return body();
}

} // namespace paceline::tokenizer::jinja
