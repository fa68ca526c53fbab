#include "runtime/tokenizer/chat_template/syntax/name_resolution.hpp"

#include "runtime/tokenizer/chat_template/evaluation/filters.hpp"
#include "runtime/tokenizer/chat_template/evaluation/tests.hpp"
#include "runtime/tokenizer/chat_template/python/failure.hpp"
#include "runtime/tokenizer/chat_template/syntax/name_collection.hpp"
#include "runtime/tokenizer/chat_template/syntax/tree_walk.hpp"

namespace paceline::tokenizer::jinja {

namespace {

/// The context of a statement.
struct surroundings {
  scope_names& names;
  bool conditional = false; ///< directly in an `if`: unknown filters fail when reached, not when parsed
  bool top_level = false;   ///< assignments are visible in blocks
  bool in_loop = false;     ///< of the same function: break and continue are allowed

  surroundings inside(scope_names& inner) const { return {inner, false, false, in_loop}; }
};

class resolver {
 public:
  void run(template_tree& tree) {
    function_scope function;
    scope_names names(nullptr, function);
    if (!undeclared_names(tree.body, {"self"}).empty()) tree.self_slot = names.declare_parameter("self");
    collect(tree.body, names);
    tree.scope = names.entry();
    resolve(tree.body, {names, false, true, false});
    tree.frame.num_slots = static_cast<int>(function.slots.size());
  }

 private:
  void resolve(block& body, const surroundings& around) {
    for (auto& s : body) std::visit([&](auto& node) { resolve_node(node, s->line, around); }, s->node);
  }

  static variable find(const std::string& name, int line, const surroundings& around) {
    const auto bound = around.names.find(name);
    if (!bound) fail_at(line, "the name '" + name + "' cannot be used here");
    return scope_names::seen_from(around.names.function(), *bound);
  }

  void resolve(expression_ptr& e, const surroundings& around) {
    if (e) resolve(*e, around);
  }

  void resolve(expression& e, const surroundings& around) {
    if (auto* name = std::get_if<name_expression>(&e.node)) {
      name->where = find(name->name, e.line, around);
    } else if (auto* filter = std::get_if<filter_expression>(&e.node)) {
      filter->entry = find_filter(filter->name);
      if (filter->entry == nullptr && !around.conditional)
        fail_at(e.line, "no filter named '" + filter->name + "'");
    } else if (auto* test = std::get_if<test_expression>(&e.node)) {
      test->entry = find_test(test->name);
      if (test->entry == nullptr && !around.conditional)
        fail_at(e.line, "no test named '" + test->name + "'");
    }
    surroundings inner = around;
    if (std::holds_alternative<conditional_expression>(e.node)) inner.conditional = true;
    for_each_child(e, [&](expression& child) { resolve(child, inner); });
  }

  void resolve(target& where, const surroundings& around) {
    where.exported = around.top_level;
    if (where.what != target::kind::tuple) where.where = find(where.name, where.line, around);
    for (target& part : where.parts) resolve(part, around);
  }

  void resolve_node(output_statement& node, int, const surroundings& around) {
    for (auto& part : node.parts) resolve(part.shown, around);
  }

  void resolve_node(if_statement& node, int, const surroundings& around) {
    surroundings inner = around;
    inner.conditional = true;
    for (auto& [test, body] : node.branches) {
      resolve(test, inner);
      resolve(body, inner);
    }
    resolve(node.otherwise, inner);
  }

  void resolve_node(for_statement& node, int, const surroundings& around) {
    if (const auto line = assignment_to_loop(node))
      fail_at(*line, "can't assign to special loop variable in for-loop");
    function_scope own{around.names.function().depth + 1, {}};
    function_scope& function = node.recursive ? own : around.names.function();

    scope_names body_names(&around.names, function);
    node.loop_slot = body_names.declare_parameter("loop");
    collect_parameters(node.loop_target, body_names);
    collect(node.body, body_names);
    scope_names else_names(&around.names, function);
    collect(node.otherwise, else_names);

    if (node.test) resolve_loop_test(node, around);
    resolve(node.iterable, around);
    surroundings body = around.inside(body_names);
    body.in_loop = true;
    node.body_scope = body_names.entry();
    resolve(node.loop_target, body);
    resolve(node.body, body);
    surroundings otherwise = around.inside(else_names);
    otherwise.in_loop = around.in_loop && !node.recursive;
    node.else_scope = else_names.entry();
    resolve(node.otherwise, otherwise);
    node.frame.num_slots = static_cast<int>(own.slots.size());
  }

  /// The test of a loop runs as a separate function, between the iterable and the body.
  void resolve_loop_test(for_statement& node, const surroundings& around) {
    function_scope function{around.names.function().depth + 1, {}};
    scope_names names(&around.names, function);
    collect_parameters(node.test_target, names);
    collect(*node.test, names);
    node.test_scope = names.entry();
    const surroundings inner{names};
    resolve(node.test_target, inner);
    resolve(node.test, inner);
    node.test_frame.num_slots = static_cast<int>(function.slots.size());
  }

  void resolve_macro(macro_body& macro, int line, const surroundings& around) {
    function_scope function{around.names.function().depth + 1, {}};
    scope_names names(&around.names, function);
    for (parameter& p : macro.parameters) p.slot = names.declare_parameter(p.name);
    for (parameter& p : macro.parameters)
      if (p.fallback) collect(*p.fallback, names);
    collect(macro.body, names);
    declare_special_names(macro, line, names);
    macro.scope = names.entry();
    const surroundings inner{names};
    for (parameter& p : macro.parameters) resolve(p.fallback, inner);
    resolve(macro.body, inner);
    macro.frame.num_slots = static_cast<int>(function.slots.size());
  }

  /// `caller`, `kwargs` and `varargs` exist in a macro whose body uses them.
  static void declare_special_names(macro_body& macro, int line, scope_names& names) {
    const auto used = undeclared_names(macro.body, {"caller", "kwargs", "varargs"});
    bool takes_kwargs = false, takes_varargs = false;
    for (const parameter& p : macro.parameters) {
      macro.explicit_caller = macro.explicit_caller || p.name == "caller";
      takes_kwargs = takes_kwargs || p.name == "kwargs";
      takes_varargs = takes_varargs || p.name == "varargs";
      if (p.name == "caller" && !p.fallback && used.contains("caller"))
        fail_at(line, "the special \"caller\" argument of a macro must be omitted or be given a default");
    }
    if (used.contains("caller") && !macro.explicit_caller)
      macro.caller_slot = names.declare_parameter("caller");
    if (used.contains("kwargs") && !takes_kwargs) macro.kwargs_slot = names.declare_parameter("kwargs");
    if (used.contains("varargs") && !takes_varargs) macro.varargs_slot = names.declare_parameter("varargs");
  }

  void resolve_node(macro_statement& node, int line, const surroundings& around) {
    resolve_macro(node.macro, line, around);
    resolve(node.where, around);
  }

  void resolve_node(call_statement& node, int line, const surroundings& around) {
    resolve_macro(node.macro, line, around);
    resolve(node.call, around);
  }

  void resolve_node(generation_statement& node, int line, const surroundings& around) {
    resolve_macro(node.macro, line, around);
  }

  void resolve_node(filter_statement& node, int, const surroundings& around) {
    scope_names names(&around.names, around.names.function());
    collect(node.body, names);
    collect(*node.filter, names);
    node.scope = names.entry();
    const surroundings inner = around.inside(names);
    resolve(node.body, inner);
    resolve(node.filter, inner);
  }

  void resolve_node(with_statement& node, int, const surroundings& around) {
    scope_names names(&around.names, around.names.function());
    for (auto& [where, assigned] : node.assignments) collect_parameters(where, names);
    collect(node.body, names);
    node.scope = names.entry();
    const surroundings inner = around.inside(names);
    for (auto& [where, assigned] : node.assignments) {
      resolve(where, inner);
      resolve(assigned, around);
    }
    resolve(node.body, inner);
  }

  void resolve_node(set_statement& node, int, const surroundings& around) {
    resolve(node.assigned, around);
    resolve(node.where, around);
  }

  void resolve_node(set_block_statement& node, int, const surroundings& around) {
    scope_names names(&around.names, around.names.function());
    collect(node.body, names);
    node.scope = names.entry();
    const surroundings inner = around.inside(names);
    resolve(node.body, inner);
    resolve(node.where, around);
    resolve(node.filter, inner);
  }

  void resolve_node(block_statement& node, int, const surroundings& around) {
    if (node.scoped) node.visible = around.names.stored_names();
    function_scope function;
    scope_names names(nullptr, function);
    if (!undeclared_names(node.body, {"self"}).empty()) node.self_slot = names.declare_parameter("self");
    collect(node.body, names);
    node.scope = names.entry();
    resolve(node.body, surroundings{names});
    node.frame.num_slots = static_cast<int>(function.slots.size());
  }

  void resolve_node(break_statement&, int line, const surroundings& around) {
    if (!around.in_loop) fail_at(line, "'break' outside loop");
  }

  void resolve_node(continue_statement&, int line, const surroundings& around) {
    if (!around.in_loop) fail_at(line, "'continue' outside loop");
  }
};

} // namespace

void resolve_names(template_tree& tree) { resolver().run(tree); }

} // namespace paceline::tokenizer::jinja
